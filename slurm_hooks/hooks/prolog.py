"""The prolog's slow path, used only if the sh hook found no fresh "ok" or "suspect"."""

from __future__ import annotations

import sys

from holdfast.vocabulary import Context
from slurm_hooks.hooks.internal_errors import guarded


def main() -> int:
    """0: the job may start here; 10: the node is bad."""
    from slurm_hooks.hooks.decision import answer  # noqa: PLC0415 - so that a failing import is handled too

    return answer(Context.PROLOG)


if __name__ == "__main__":
    sys.exit(guarded("prolog", main))

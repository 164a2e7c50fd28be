"""The epilog's slow path, used only if no fresh verdict decides."""

from __future__ import annotations

import sys

from holdfast.vocabulary import Context
from slurm_hooks.hooks.internal_errors import guarded


def main() -> int:
    """0: the node stays in service; 10: the node is bad and no agent drains it."""
    from slurm_hooks.hooks.decision import answer  # noqa: PLC0415 - so that a failing import is handled too

    return answer(Context.EPILOG)


if __name__ == "__main__":
    sys.exit(guarded("epilog", main))

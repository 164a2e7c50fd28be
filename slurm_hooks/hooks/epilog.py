"""The epilog's slow path: asked only when no fresh verdict settles it."""

from __future__ import annotations

import sys

from holdfast.vocabulary import Context
from slurm_hooks.hooks.guard import guarded


def main() -> int:
    """0: the node stays as it is; 10: the node is bad and nobody else takes it out."""
    from slurm_hooks.hooks.admission import answer  # noqa: PLC0415 - so that a failing import is guarded too

    return answer(Context.EPILOG)


if __name__ == "__main__":
    sys.exit(guarded("epilog", main))

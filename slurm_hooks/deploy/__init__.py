"""Documents that put Holdfast's node part on a cluster: for Soperator, Slinky and plain Slurm.

Nothing here does more than read the files of this folder and what a person named; nothing is needed
that a node lacks.
"""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent


def source(file: str) -> str:
    """The text of a file of this folder."""
    return (_FOLDER / file).read_text(encoding="utf-8")


def indented(text: str, spaces: int) -> str:
    """Every line of ``text`` moved right, for a block of YAML; empty lines stay empty."""
    pad = " " * spaces
    return "".join(pad + line if line.strip() else line for line in text.splitlines(keepends=True))

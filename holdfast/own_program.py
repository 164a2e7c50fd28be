"""The command line of a program of Holdfast, run by the Python that runs this one.

Holdfast is installed as packages of that Python, or is one file: a zipapp (``scripts/package
zipapp``), which runs the module that follows ``-m``.
"""

from __future__ import annotations

import sys


def own_program(module: str, *words: str) -> list[str]:
    """argv. ``-I``: neither the caller's environment nor the working directory adds modules."""
    archive = zipapp()
    start = [sys.executable, "-I", *([archive] if archive else [])]
    return [*start, "-m", module, *words]


def zipapp() -> str | None:
    """Absolute path of the zipapp that this is a part of; None where Holdfast is installed."""
    archive: str | None = getattr(sys.modules[__name__].__loader__, "archive", None)
    return archive

"""Where the sandbox keeps its files on the host."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path

from testbed.errors import SandboxError

TREE = Path(__file__).resolve().parent.parent.parent
"""The working tree that boxes install."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,40}")


def cache() -> Path:
    """Everything downloaded or built, kept between boxes; `down --purge` removes it."""
    return Path(os.environ.get("HOLDFAST_CACHE") or Path.home() / ".cache/holdfast")


def boxes() -> Path:
    """One folder for each box."""
    return Path(os.environ.get("HOLDFAST_BOXES") or "/var/lib/holdfast-sandbox")


def may_be_name(name: str) -> bool:
    """Whether a box can have this name."""
    return _NAME.fullmatch(name) is not None


def box_folder(name: str) -> Path:
    """Raises ``SandboxError`` when ``name`` cannot be a box's name."""
    if not may_be_name(name):
        raise SandboxError(
            f"'{name}' is not a valid box name: use letters, digits, '-', '_' and '.' (at most 41)"
        )
    return boxes() / name


def purge(folder: Path) -> None:
    """Remove what the sandbox keeps in ``folder``, by name: the folder may hold other files."""
    for name in (
        "roots",
        "layers",
        "kube",
        "native",
        "rivals",
        "fresh",
        "terraform",
        "helm",
        "images",
        "pods",
        "prometheus",
        "release",
    ):
        shutil.rmtree(folder / name, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.rmdir()

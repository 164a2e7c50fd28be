"""The names in one folder, read once and used by all frameworks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from holdfast.adapters import safe_file

MAX_ENTRIES = 200_000
"""Entries of one folder. One with more holds something else."""
OWN_FOLDER = ".holdfast"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One folder. ``files`` are all entries that are not folders, also pipes and the like.

    ``beside``: the names in the folder above; ``unreadable``: entry → why it cannot be read.
    """

    path: Path
    files: frozenset[str]
    folders: frozenset[str]
    beside: frozenset[str] = frozenset()
    unreadable: tuple[tuple[str, OSError], ...] = ()

    @property
    def name(self) -> str:
        return self.path.name

    def ending(self, *ends: str) -> list[str]:
        """The files whose names end so, sorted."""
        return sorted(name for name in self.files if name.endswith(ends))


def list_folder(
    path: Path, beside: frozenset[str] = frozenset(), most: int = MAX_ENTRIES
) -> Listing:
    """The entries of a folder. Links to an entry of the same folder (``last.pt``) are left out: they
    would count their target twice. Raises OSError.
    """
    files, folders, unreadable = [], [], []
    for entry in safe_file.scan(path, most=most):
        try:
            if entry.is_symlink() and _leads_to_sibling(path / entry.name):
                continue
            if entry.is_dir():
                folders.append(entry.name)
            else:
                if entry.is_symlink():
                    entry.stat()
                files.append(entry.name)
        except OSError as error:
            unreadable.append((entry.name, error))
    return Listing(
        path=path,
        files=frozenset(files),
        folders=frozenset(folders),
        beside=beside,
        unreadable=tuple(unreadable),
    )


def _leads_to_sibling(path: Path) -> bool:
    return Path(os.path.realpath(path)).parent == Path(os.path.realpath(path.parent))

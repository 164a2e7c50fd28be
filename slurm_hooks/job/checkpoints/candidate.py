"""A possible checkpoint (Candidate), a checked one (Checkpoint), and how a framework checks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A file or folder that may be a checkpoint, not yet checked.

    ``unit``        the unit of ``step``: ``step``, ``epoch``, or ``number`` where the name has none.
    ``changed_at``  last change, epoch seconds.
    ``rejected``    why it cannot be used (temporary name, cannot be read), else empty.
    """

    path: Path
    framework: str
    step: int | None
    unit: str
    changed_at: float
    rejected: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checked checkpoint: valid, or rejected for ``reason``.

    ``unreadable``: it could not be checked; otherwise a rejected checkpoint is broken (rule 2).
    """

    path: Path
    framework: str
    step: int | None
    changed_at: float
    reason: str = ""
    unreadable: bool = False

    @property
    def valid(self) -> bool:
        return not self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """How the checkpoints of one framework are recognised and checked.

    ``owns_file`` gets a file's name, ``owns_folder`` the names inside a folder. ``fault`` returns why
    a checkpoint is incomplete, or an empty string; it raises OSError when it cannot read it.
    """

    name: str
    owns_file: Callable[[str], bool]
    owns_folder: Callable[[frozenset[str]], bool]
    fault: Callable[[Path], str]

"""What may be a checkpoint (Candidate) and what was found of it (Checkpoint)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Something in the checkpoint folder that a framework may have written, not yet judged.

    ``unit``        what ``step`` counts: ``step``, ``epoch``, or ``number`` where the name does not
                    say.
    ``changed_at``  last change, epoch seconds.
    ``rejected``    why it is no candidate after all (temporary name, cannot be read), else empty.
    """

    path: Path
    framework: str
    step: int | None
    unit: str
    changed_at: float
    rejected: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A judged checkpoint: valid, or rejected for ``reason``.

    ``unreadable`` tells "could not look" from "looked and it is broken" (law 2).
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
    """How one framework's checkpoints are told and judged.

    ``owns_file`` and ``owns_folder`` look at a name and at the names inside a folder; ``fault``
    returns why a checkpoint is not whole, or an empty string. ``fault`` may raise OSError: then
    nobody could look.
    """

    name: str
    owns_file: Callable[[str], bool]
    owns_folder: Callable[[frozenset[str]], bool]
    fault: Callable[[Path], str]

"""A possible checkpoint (Candidate), a checked one (Checkpoint), and how a framework checks it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from slurm_hooks.job.checkpoints.listing import Listing

UNKNOWN = "unknown"
"""The framework of a folder with a checkpoint's name whose content is not recognised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A file or folder that may be a checkpoint, not yet checked.

    ``path``        what a program loads: a file, a folder, or a TensorFlow prefix.
    ``unit``        the unit of ``step``: ``step``, ``epoch``, or ``number`` where the name has none.
    ``changed_at``  last change, epoch seconds.
    ``rejected``    why it cannot be used (temporary name, cannot be read), else empty.
    ``missing``     parts of ranks that other checkpoints beside it have, as text. It counts where
                    the framework's own files do not say how many ranks there were.
    ``members``     the names of its files, where they are not ``path`` alone; empty: look for them.
    """

    path: Path
    framework: str
    step: int | None
    unit: str
    changed_at: float
    rejected: str = ""
    missing: str = ""
    members: tuple[str, ...] = ()


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


class Found(NamedTuple):
    """Files of one checkpoint in a folder. ``name``: of its path in the folder; ``members``: the names
    of its files, where they are not ``name`` alone. ``parts``: the files that belong to single ranks.
    """

    name: str
    members: tuple[str, ...] = ()
    parts: frozenset[str] = frozenset()


def no_files(_: Listing) -> Iterable[Found]:
    """For frameworks whose checkpoints are folders."""
    return ()


def no_folder(_: Listing) -> bool:
    """For frameworks whose checkpoints are files."""
    return False


def no_parts(_: Listing) -> frozenset[str]:
    """For frameworks without one file for each rank, or whose files say how many ranks there were."""
    return frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """How the checkpoints of one framework are recognised and checked.

    ``owns_folder``  this folder is one checkpoint.
    ``files``        the checkpoints among the files of a folder that is none itself.
    ``fault``        why a checkpoint is incomplete, or an empty string; raises OSError when it cannot
                     be read.
    ``parts``        the entries of a checkpoint's folder that belong to single ranks.
    ``step``         the step that the content gives, for names that do not tell; None: not known.
    ``counts_steps`` a number in a name is a step.
    """

    name: str
    fault: Callable[[Candidate], str]
    owns_folder: Callable[[Listing], bool] = no_folder
    files: Callable[[Listing], Iterable[Found]] = no_files
    parts: Callable[[Listing], frozenset[str]] = no_parts
    step: Callable[[Path], int | None] = lambda _: None
    counts_steps: bool = False

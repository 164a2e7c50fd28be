"""The notes that the sh hook leaves about each run of a job on this node, one file each.

``RUN/notes/<job>.<restarts>.start`` (prolog) and ``….end`` (epilog), one line: ``holdfast-job/1
KIND JOB RESTARTS UPTIME_S BOOT_ID UID GPUS HET_JOB SKIP end``, ``-`` for what Slurm did not set.
Facts about the hooks' environment, seen on 24.11.5 and 26.05.5: SLURM_JOB_GPUS holds the node's GPU
indices in prolog and epilog; SLURM_JOB_RESTART_COUNT is 0 in the first run; each component of a het
job has a job id of its own and SLURM_HET_JOB_ID names the leader, whose id all tasks of all
components carry; elements of an array have job ids of their own too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

WIRE = "holdfast-job/1"
START, END = "start", "end"
_MAX_BYTES = 4096
_MAX_NOTES = 1024
_DIGITS = 18
"""Longest number accepted; int() refuses texts of thousands of digits."""
_MAX_GPU = 1023


@dataclass(frozen=True, slots=True, kw_only=True)
class HookNote:
    """A hook's note about one run of a job.

    ``at_s``     seconds since boot when the hook ran.
    ``uid``      the job's user; None: not set by Slurm.
    ``gpus``     indices of the job's GPUs on this node; None: Slurm allocated none by index.
    ``het_job``  the leader's job id if this job is a component of a het job, else None.
    ``skip``     the user skips the checks, and the site allows it.
    """

    kind: str
    job: int
    restarts: int
    at_s: float
    boot_id: str
    uid: int | None = None
    gpus: frozenset[int] | None = None
    het_job: int | None = None
    skip: bool = False


def folder(run_dir: Path) -> Path:
    return run_dir / "notes"


def start_of(run_dir: Path, job: int, restarts: int) -> Path:
    """The path of the prolog's note about a run."""
    return folder(run_dir) / f"{job}.{restarts}.{START}"


def read_all(where: Path) -> Iterator[tuple[Path, HookNote | str]]:
    """All notes, oldest first; for an invalid one, a line that says what is wrong."""
    with contextlib.suppress(OSError):
        names = sorted(
            entry for entry in where.iterdir() if entry.suffix in (f".{START}", f".{END}")
        )
        found = [(path, read(path)) for path in names[:_MAX_NOTES]]
        yield from sorted(found, key=lambda one: _order(one[1]))


def _order(found: HookNote | str) -> tuple[float, int, bool]:
    """By time; uptime has hundredths of a second, so two notes may have the same time."""
    if isinstance(found, str):
        return (0.0, 0, False)
    return (found.at_s, found.restarts, found.kind == END)


def read(path: Path) -> HookNote | str:
    """The note in ``path``, or why it is not valid."""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES).decode("ascii", "replace")
        return parse(text)
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    except ValueError as error:
        return f"{path}: {error}"


def parse(text: str) -> HookNote:
    """The note in one line. Raises ValueError for a line that is incomplete or invalid."""
    words = text.split()
    if len(words) != 11 or words[-1] != "end":
        raise ValueError("half-written note")
    wire, kind, job, restarts, at_s, boot_id, uid, gpus, het_job, skip, _ = words
    if wire != WIRE or kind not in (START, END):
        raise ValueError(f"not a note of this version: {wire} {kind}"[:200])
    return HookNote(
        kind=kind,
        job=_whole(job),
        restarts=_whole(restarts),
        at_s=_seconds(at_s),
        boot_id=boot_id,
        uid=None if uid == "-" else _whole(uid),
        gpus=None if gpus == "-" else gpu_indices(gpus),
        het_job=None if het_job == "-" else _whole(het_job),
        skip=skip == "skip",
    )


def _seconds(text: str) -> float:
    for digits in text.split(".", 1):
        _whole(digits)
    return float(text)


def gpu_indices(text: str) -> frozenset[int]:
    """``0,2-4`` as indices. Raises ValueError for anything else."""
    found: set[int] = set()
    for word in text.split(","):
        first, dash, last = word.partition("-")
        low, high = _whole(first), _whole(last if dash else first)
        if not low <= high <= _MAX_GPU:
            raise ValueError(f"no GPU indices: {text[:80]!r}")
        found.update(range(low, high + 1))
    return frozenset(found)


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS:
        raise ValueError(f"no whole number: {text[:80]!r}")
    return int(text)

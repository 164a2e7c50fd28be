"""Another job that runs with the same checkpoint folder, as the tasks of an array may.

Each would resume from the other's checkpoints. Jobs that run one after the other may share a folder: the
next one goes on from where the last one stopped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.adapters import jsonl, safe_file
from holdfast.records.job_journal import Event, last
from holdfast.slurm.client import SlurmClient
from slurm_hooks.job.environment import JobContext

_NAME = re.compile(r"job-(\d{1,10})\.jsonl")
_MAX_ENTRIES = 20_000
_MAX_JOBS = 16
"""Journals that are read, the last changed first: each costs a call to slurmctld if it has no end."""
_TAIL_BYTES = 64 << 10
_RUNNING = frozenset({"RUNNING", "SUSPENDED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Other:
    """A job with this folder whose journal has no end. ``began``: its last run; ``has_step``: its last attempt
    has started a step; ``goes``: it has been requeued since."""

    job_id: int
    began: float
    has_step: bool
    goes: bool

    def is_before(self, context: JobContext) -> bool:
        return (self.began, self.job_id) < (context.started_at, context.job_id)


def other_job(journal: Path, context: JobContext, slurm: SlurmClient) -> int | None:
    """The job that runs with this folder: since before this one, or one that started later and was faster.
    None: none is known. Raises CommandError.

    Each job writes its journal and then looks. Of two that start together at least one sees the other: the
    later one does not start. Where it has looked before the other one wrote, that one sees its step.
    """
    for other in _unfinished(journal):
        if other.is_before(context) or other.has_step:
            job = slurm.job(other.job_id)
            started = job.start_at.timestamp() if job and job.start_at else 0.0
            # Another start time: Slurm has given the number to another job meanwhile.
            if job and job.state in _RUNNING and abs(started - other.began) < 2:
                return other.job_id
    return None


def is_undecided(journal: Path, context: JobContext) -> bool:
    """Whether a job that started later may be about to start a step, because it has looked before this one
    wrote its journal."""
    return any(
        not (other.is_before(context) or other.has_step or other.goes)
        for other in _unfinished(journal)
    )


def _unfinished(journal: Path) -> Iterator[_Other]:
    """Other jobs whose journals have no end."""
    for job_id, path in _others(journal):
        try:
            opened = safe_file.open_regular(path)
            with opened.file as file:
                file.seek(max(0, opened.size_bytes - _TAIL_BYTES))
                events = jsonl.parse(file.read(_TAIL_BYTES).splitlines()).whole
        except OSError:
            continue
        began = _began(events)
        if began and events[-1].get("event") != "finish":
            names = [event.get("event") for event in events]
            latest = names[len(names) - names[::-1].index("attempt") :]
            has_step, goes = "step_start" in latest, "requeue" in latest
            yield _Other(job_id=job_id, began=began, has_step=has_step, goes=goes)


def _began(events: Iterable[Event]) -> float:
    named = [event for event in events if isinstance(event.get("event"), str)]
    start = (last(named, "attempt") or {}).get("job_start")
    return float(start) if isinstance(start, (int, float)) and 0 < start < 2**40 else 0.0


def _others(journal: Path) -> list[tuple[int, Path]]:
    found = []
    try:
        for entry in safe_file.scan(journal.parent, most=_MAX_ENTRIES):
            named = _NAME.fullmatch(entry.name)
            if named and entry.name != journal.name and not entry.is_symlink():
                found.append((entry.stat(follow_symlinks=False).st_mtime, int(named[1])))
    except OSError:
        return []
    newest = sorted(found, reverse=True)[:_MAX_JOBS]
    return [(job_id, journal.with_name(f"job-{job_id}.jsonl")) for _, job_id in newest]

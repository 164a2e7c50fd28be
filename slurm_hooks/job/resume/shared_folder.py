"""Another job that runs with the same checkpoint folder, as the tasks of an array may.

Each would resume from the other's checkpoints. Jobs that run one after the other may share a folder: the
next one goes on from where the last one stopped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from holdfast.adapters import jsonl, safe_file
from holdfast.errors import CommandError
from holdfast.records.job_journal import Event, last
from holdfast.slurm.client import SlurmClient
from slurm_hooks.job.environment import JobContext

_NAME = re.compile(r"job-(\d{1,10})\.jsonl")
_MAX_ENTRIES = 20_000
_MAX_JOBS = 16
"""Journals that are read, the last changed first: each costs a call to slurmctld if it has no end."""
_TAIL_BYTES = 64 << 10
_RUNNING = frozenset({"RUNNING", "SUSPENDED"})


def other_job(journal: Path, context: JobContext, slurm: SlurmClient) -> int | None:
    """The job that has been running with this folder since before this one; None: none is known."""
    for job_id, began in _unfinished(journal):
        if (began, job_id) < (context.started_at, context.job_id):
            try:
                job = slurm.job(job_id)
            except CommandError:
                return None
            started = job.start_at.timestamp() if job and job.start_at else 0.0
            # Another start time: Slurm has given the number to another job meanwhile.
            if job and job.state in _RUNNING and abs(started - began) < 2:
                return job_id
    return None


def _unfinished(journal: Path) -> Iterator[tuple[int, float]]:
    """Other jobs whose journals have no end, and when their last run began."""
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
            yield job_id, began


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

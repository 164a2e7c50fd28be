"""Reading a job's journal: JSON lines on the shared filesystem, one file for each job.

The launcher writes it (``slurm_hooks.job.journal``); it and ``holdfast explain`` read it. Users can write to
the file, so a reader skips what is no event and trusts no value's type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.adapters import jsonl, safe_file

Event = Mapping[str, Any]
"""An event with its name at the key ``event``."""

FOLDER = ".holdfast"
_MAX_BYTES = 256 << 20


def file_name(job_id: int) -> str:
    return f"job-{job_id}.jsonl"


def path_for(checkpoints: Path, job_id: int) -> Path:
    return checkpoints / FOLDER / file_name(job_id)


def read(path: Path, *, max_bytes: int = _MAX_BYTES) -> list[Event]:
    """Every whole event in the file, oldest first, without the lines that a crash cut short. Raises
    ``OSError``, also for a file of more than ``max_bytes``."""
    lines = safe_file.read_bytes(path, max_bytes=max_bytes).splitlines()
    return [event for event in jsonl.parse(lines).whole if isinstance(event.get("event"), str)]


def of_last_job(events: Sequence[Event], run: tuple[int, float] | None = None) -> Sequence[Event]:
    """The events since the last job of this number was submitted. ``run``: the restart count and the start
    time (0: unknown) of the job's present run, which may have no event yet. Pure.

    Slurm reuses job numbers (a new cluster, a new state directory). A restart count that falls, or one
    that stays while the job's start time changes, means another job (rule 10). An entry of an earlier run
    of the same job is late, by a launcher that was cut off, and is left out.
    """
    keys = [(index, _run_of(event)) for index, event in enumerate(events) if _starts_attempt(event)]
    if run is not None:
        keys.append((len(events), run))
    first, before = 0, (-1, 0.0)
    known: set[tuple[int, float]] = set()
    late: set[int] = set()
    for index, key in keys:
        if key != before and key in known and key[1]:
            late.add(index)
            continue
        moved = key[1] and before[1] and key[1] != before[1]
        if key[0] < before[0] or (key[0] == before[0] and moved):
            first, known = index, set()
        before = key
        known.add(key)
    return [event for index, event in enumerate(events) if index >= first and index not in late]


def attempts(events: Iterable[Event]) -> list[list[Event]]:
    """The events grouped by attempt, oldest first. A launcher that was cut off may write events of its
    attempt when the next one has begun already. Pure."""
    groups: list[list[Event]] = []
    by_number: dict[int, list[Event]] = {}
    for event in events:
        number = event.get("attempt")
        if _starts_attempt(event):
            groups.append([event])
            if isinstance(number, int):
                by_number[number] = groups[-1]
        elif groups:
            own = by_number.get(number) if isinstance(number, int) else None
            (own or groups[-1]).append(event)
    return groups


def last(events: Iterable[Event], name: str) -> Event | None:
    """The last event of that name, or ``None``. Pure."""
    found = None
    for event in events:
        if event["event"] == name:
            found = event
    return found


def _starts_attempt(event: Event) -> bool:
    return bool(event["event"] == "attempt")


def _run_of(event: Event) -> tuple[int, float]:
    restarts, start = event.get("restarts"), event.get("job_start")
    return (
        restarts if type(restarts) is int else 0,
        float(start) if isinstance(start, (int, float)) and abs(start) < 2**63 else 0.0,
    )

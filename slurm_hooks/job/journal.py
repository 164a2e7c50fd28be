"""The job's journal: append-only JSON lines on the shared filesystem, one file for each job.

Events, each with ``t`` (epoch seconds): attempt, checkpoint, step_start, step_end, loss, evidence,
decision, requeue, finish, slow, pairs, fence. Readers skip a line that a crash cut short, and it never corrupts
the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from holdfast.adapters import jsonl, safe_file

Event = Mapping[str, Any]

FOLDER = ".holdfast"
_MAX_BYTES = 256 << 20


def path_for(checkpoints: Path, job_id: int) -> Path:
    return checkpoints / FOLDER / f"job-{job_id}.jsonl"


class Journal:
    """Appends to, and reads, one job's journal.

    A full or broken filesystem must not end a training job, so writing never raises: ``broken``
    then holds the reason, and this process keeps the event in memory.
    """

    def __init__(
        self, path: Path, now: Callable[[], float], *, restarts: int = 0, job_start: float = 0.0
    ) -> None:
        """``restarts`` and ``job_start`` identify the present run of the job."""
        self.path = path
        self.broken = ""
        self._now = now
        self._run = (restarts, job_start)
        self._lost: list[Event] = []

    def add(self, event: str, **facts: Any) -> None:
        """Appends one event and waits until it is on disk."""
        record = {"t": round(self._now(), 3), "event": event, **facts}
        try:
            jsonl.append(self.path, jsonl.encode(record))
        except OSError as error:
            self.broken = error.strerror or str(error)
            self._lost.append(record)

    def events(self) -> list[Event]:
        """Every complete event of this job, oldest first; none when there is no journal yet."""
        return of_this_job(self.all_events(), self._run)

    def all_events(self) -> list[Event]:
        """As ``events``, with those of an earlier job of the same number."""
        try:
            lines = safe_file.read_bytes(self.path, max_bytes=_MAX_BYTES).splitlines()
        except OSError:
            lines = []
        whole = [e for e in jsonl.parse(lines).whole if isinstance(e.get("event"), str)]
        return [*whole, *self._lost]


def of_this_job(events: list[Event], run: tuple[int, float]) -> list[Event]:
    """The events since this job was submitted; ``run`` is its present restart count and start time.

    Slurm reuses job ids (a new cluster, a new state directory). A restart count that falls, or one
    that stays while the job's start time changes, means another job (rule 10). An entry of an earlier
    run of this job is late: a launcher that was cut off wrote it. It is left out.
    """
    keys = [(index, _run_of(event)) for index, event in enumerate(events) if _starts_attempt(event)]
    first, before = 0, (-1, 0.0)
    known: set[tuple[int, float]] = set()
    late: set[int] = set()
    for index, key in [*keys, (len(events), run)]:
        if key != before and key in known and key[1]:
            late.add(index)
            continue
        if key[0] < before[0] or (key[0] == before[0] and key[1] != before[1]):
            first, known = index, set()
        before = key
        known.add(key)
    return [event for index, event in enumerate(events) if index >= first and index not in late]


def _starts_attempt(event: Event) -> bool:
    return bool(event["event"] == "attempt")


def _run_of(event: Event) -> tuple[int, float]:
    restarts, start = event.get("restarts"), event.get("job_start")
    return (
        restarts if isinstance(restarts, int) else 0,
        float(start) if isinstance(start, (int, float)) and abs(start) < 2**63 else 0.0,
    )


def attempts(events: Iterable[Event]) -> list[list[Event]]:
    """The events grouped by attempt, oldest first. A launcher that was cut off may write events of its
    attempt when the next one has begun already."""
    groups: list[list[Event]] = []
    by_number: dict[int, list[Event]] = {}
    for event in events:
        number = event.get("attempt")
        if event["event"] == "attempt":
            groups.append([event])
            if isinstance(number, int):
                by_number[number] = groups[-1]
        elif groups:
            own = by_number.get(number) if isinstance(number, int) else None
            (own or groups[-1]).append(event)
    return groups


def last(events: Iterable[Event], name: str) -> Event | None:
    """The last event of that name, or ``None``."""
    found = None
    for event in events:
        if event["event"] == name:
            found = event
    return found

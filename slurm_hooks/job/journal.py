"""The job's journal: append-only JSON lines on the shared filesystem, one file for each job.

Events, each with ``t`` (epoch seconds): attempt, checkpoint, step_start, step_end, loss, evidence,
decision, requeue, finish, slow, pairs, fence. Readers skip a line that a crash cut short, and it never corrupts
the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from holdfast.adapters import jsonl
from holdfast.records.job_journal import Event, of_last_job, read


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

    def events(self) -> Sequence[Event]:
        """Every complete event of this job, oldest first; none when there is no journal yet."""
        return of_last_job(self.all_events(), self._run)

    def all_events(self) -> list[Event]:
        """As ``events``, with those of an earlier job of the same number."""
        try:
            written = read(self.path)
        except OSError:
            written = []
        return [*written, *self._lost]

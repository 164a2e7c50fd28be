"""Whether a newer attempt has begun, from the job's journal, which is read as it grows."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import IO, NamedTuple

from holdfast.adapters import jsonl
from holdfast.records.job_journal import Event

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CHUNK_BYTES = 1 << 20
_MAX_BYTES = 8 << 20
"""Of one look. The first look at a larger journal begins so far before its end."""


_USED = ("event", "attempt", "restarts", "job_start")
_PARSING = threading.Lock()
"""A line of a mebibyte may be 60 as objects, and an agent's worker reads many journals: one at a time."""


class Run(NamedTuple):
    """One run of the job. ``started_at``: epoch seconds of slurmctld's clock; 0: not known. It is needed where a
    slurmctld that was killed has forgotten a requeue, and counts the same restart again."""

    restarts: int
    started_at: float


class Newer:
    """The newest attempt after this one, among events that are given in order. Pure.

    Runs come first: a launcher that is cut off and does not know it may count its attempts on. In the same
    run of the job, another attempt is newer only if this one's step has ended: else another launcher of the
    same script has begun it. Slurm reuses job numbers, so runs that are in the journal before this one, and
    began before it, are older whatever their number of restarts.
    """

    def __init__(self, attempt: int, run: Run) -> None:
        self._attempt, self._run = attempt, run
        self._later = self._ended = False
        self.event: Event | None = None

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            number, name = event.get("attempt"), event.get("event")
            if not isinstance(number, int):
                continue
            if name == "attempt":
                self._take(event, number)
            elif name == "step_end" and number == self._attempt:
                self._ended = True

    def _take(self, event: Event, number: int) -> None:
        run = _run_of(event)
        if run is None:
            return
        if run == self._run:
            if number == self._attempt:
                self._later, self._ended = True, False
            elif self._ended and number > self._attempt:
                self.event = event
        elif run > self._run and (self._later or self._began_after(run)):
            self.event = event

    def _began_after(self, run: Run) -> bool:
        return run.started_at >= self._run.started_at > 0

    def begin(self) -> None:
        """From now on events are later than this attempt, also if its own was not among them."""
        self._later = True


def _run_of(event: Event) -> Run | None:
    restarts, start = event.get("restarts"), event.get("job_start", 0.0)
    if type(restarts) is not int or not isinstance(start, (int, float)) or abs(start) >= 2**63:
        return None
    return Run(restarts, float(start))


def open_as_user(path: str) -> IO[bytes]:
    """For a process that is not root: with the user's own rights, a link leads no further than the user may
    go. Does not wait for a named pipe. Raises OSError."""
    fd = os.open(path, _FLAGS)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{path}: not a regular file")
    return os.fdopen(fd, "rb")


def why_ended(newer: Event) -> str:
    """Why an attempt ends, for the job's log."""
    return f"attempt {newer.get('attempt')} of this job has begun (restart {newer.get('restarts')})"


class JournalReader:
    """Reads what was appended since the last look.

    ``open_``: opens the journal again for each look. An open file may show old content: network file systems
    compare it with the server when it is opened (nfs(5), close-to-open). Another user who can write to the
    folder can replace the journal, and must not end the job by that: each file's owner is that of the first.
    """

    def __init__(self, open_: Callable[[], IO[bytes]], attempt: int, run: Run) -> None:
        self._open, self._who = open_, (attempt, run)
        self._newer = Newer(*self._who)
        self._file = (-1, -1)
        self._owner: int | None = None
        self._at = 0
        self._read = False

    def look(self) -> Event | None:
        """The newest attempt after this one. Raises OSError if the journal cannot be read."""
        with self._open() as file:
            facts = os.fstat(file.fileno())
            if self._owner is None:
                self._owner = facts.st_uid
            elif facts.st_uid != self._owner:
                raise OSError("replaced by a file of another user")
            if (facts.st_dev, facts.st_ino) != self._file or facts.st_size < self._at:
                self._file = (facts.st_dev, facts.st_ino)
                self._at, self._newer = 0, Newer(*self._who)
                if facts.st_size > _MAX_BYTES:
                    self._at = facts.st_size - _MAX_BYTES
                    self._newer.begin()
                elif self._read:
                    self._newer.begin()  # replaced by another file
            self._take(file, facts.st_size)
        if not self._read:
            self._read = True
            self._newer.begin()
        return self._newer.event

    def _take(self, file: IO[bytes], size: int) -> None:
        end = min(size, self._at + _MAX_BYTES)
        file.seek(self._at)
        while self._at < end:
            data = file.read(min(_CHUNK_BYTES, end - self._at))
            whole = data.rfind(b"\n") + 1
            if not data or (not whole and len(data) < _CHUNK_BYTES):
                return  # a line that is not complete yet
            taken = data[:whole] if whole else data
            self._at += len(taken)
            file.seek(self._at)
            self._newer.take(_attempts(taken))


def _attempts(data: bytes) -> Iterator[Event]:
    """Only the fields that are used: the others may hold any number of objects."""
    for line in data.splitlines():
        if b'"attempt"' in line:
            with _PARSING:
                event = _used(line)
            if event:
                yield event


def _used(line: bytes) -> Event:
    found = jsonl.parse([line]).whole
    record = found[0] if found else {}
    if record.get("event") not in ("attempt", "step_end"):
        return {}
    return {name: record[name] for name in _USED if isinstance(record.get(name), (str, int, float))}

"""Keeps the leases of one user's attempts on this node. Runs in a contained worker, as that user.

Storage, slurmctld and processes of the user may not answer. Each is asked in a thread, and the leases are kept
meanwhile.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from holdfast.errors import CommandError
from holdfast.policy.job.fence import POLL_S, Lease, Order
from holdfast.records.job_journal import Event
from slurm_hooks.agent.fence.slurm_as_root import Jobs
from slurm_hooks.agent.fence.tasks import Attempt, Scan, Tasks, signal_all
from slurm_hooks.job.checkpoints.storage_errors import is_transient
from slurm_hooks.job.fence.newer import JournalReader, open_as_user

_MOST = 16
"""Attempts of one user on one node: in general there is one for each job."""
_MOST_THREADS = 40
"""A file system of the user's own can keep each of them for ever."""
_SCAN_S = 10.0
"""Between two scans for new processes; a new job is looked for at each turn."""
_PATIENCE_S = 0.25
"""For answers of a healthy storage. Later ones count at the next turn."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """``jobs``: of this user on this node. ``stopped``: the attempts that were stopped when
    this worker, or one before it, answered last. ``may_act``: False: what was stopped goes on."""

    jobs: frozenset[int]
    stopped: frozenset[Attempt] = frozenset()
    may_act: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An order that an attempt did not have before."""

    attempt: Attempt
    order: Order
    processes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """How many attempts of the user there are on this node. ``None``: no scan has answered yet."""

    attempts: int | None


class _Threads:
    """The threads of one keeper, ``_MOST_THREADS`` at most."""

    def __init__(self) -> None:
        self._started: list[threading.Thread] = []

    def start(self, call: Callable[[], None]) -> threading.Thread | None:
        """None: as many as allowed have not returned yet."""
        self._started = [thread for thread in self._started if thread.is_alive()]
        if len(self._started) >= _MOST_THREADS:
            return None
        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        self._started.append(thread)
        return thread


class _Asked(Generic[T]):
    """A call in a thread, one at a time. ``began_at``: of the call that has answered last."""

    def __init__(
        self, call: Callable[[], T], clock: Callable[[], float], threads: _Threads
    ) -> None:
        self._call, self._clock, self._threads = call, clock, threads
        self._thread: threading.Thread | None = None
        self._done: list[tuple[float, T]] = []
        self._began_at = float("-inf")
        self.outage = self.refused = False
        """The last call ended with an error: one that passes, as of a storage that does not answer, or one
        that does not, as of a file that is not there."""

    def hangs(self, now: float) -> bool:
        running = self._thread is not None and self._thread.is_alive()
        return running and now - self._began_at > POLL_S

    def ask(self) -> None:
        """Asks, unless an earlier call has not returned yet."""
        if self._thread is not None and self._thread.is_alive():
            return
        before, self._began_at = self._began_at, self._clock()
        thread = self._threads.start(self._run)
        if thread is None:
            self._began_at = before
        else:
            self._thread = thread

    def wait(self, until: float) -> None:
        if self._thread is not None:
            self._thread.join(max(0.0, until - self._clock()))

    def take(self) -> tuple[float, T] | None:
        """When the call began that has answered, and its answer; None: no answer, or an error."""
        return self._done.pop() if self._done else None

    def _run(self) -> None:
        began_at = self._began_at
        try:
            self._done = [(began_at, self._call())]
            self.outage = self.refused = False
        except OSError as error:
            self._done, self.outage = [], is_transient(error)
            self.refused = not self.outage
        except CommandError:
            self._done = []


@dataclass(slots=True)
class _Watched:
    tasks: Tasks
    lease: Lease
    journal: _Asked[Event | None]
    slurm: _Asked[bool]
    was_read: bool = False
    enforced: Order = field(default=Order.GO_ON)

    @property
    def is_removed(self) -> bool:
        """Whether its tasks are stopped, and the storage answers that there is no journal any more: then
        slurmctld alone has to let them go on."""
        return self.enforced is Order.STOP and self.journal.refused

    def has_lease(self, now: float) -> bool:
        """Whether the journal was read, or its storage does not answer: one that is not where this worker
        can see it gives no lease."""
        return self.was_read or self.journal.outage or self.journal.hangs(now)


class Keeper:
    """``serve`` is called every ``POLL_S``, or as soon as it says."""

    def __init__(
        self,
        uid: int,
        slurm: Jobs,
        *,
        procfs: Path = Path("/proc"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._uid, self._slurm, self._procfs, self._clock = uid, slurm, procfs, clock
        self._threads = _Threads()
        self._watched: dict[Attempt, _Watched] = {}
        self._scan: _Asked[dict[Attempt, Tasks]] | None = None
        self._jobs: frozenset[int] = frozenset()
        self._scanned_at = float("-inf")
        self._has_scanned = False

    def serve(self, request: Request) -> Iterator[Any]:
        """The changes, the attempts that are stopped now, how many there are, and in how many seconds to ask
        again."""
        now = self._clock()
        self._find(request, now)
        for watched in self._watched.values():
            # All storages are asked before one is waited for: one that hangs must not delay the
            # others.
            watched.journal.ask()
            if watched.lease.asks_slurm(now) or watched.is_removed:
                watched.slurm.ask()
        for watched in self._watched.values():
            watched.journal.wait(now + _PATIENCE_S)
        again_s = POLL_S
        for attempt, watched in self._watched.items():
            self._renew(watched)
            yield from self._enforce(attempt, watched, may_act=request.may_act)
            if watched.has_lease(self._clock()):
                again_s = min(again_s, watched.lease.look_again_s(self._clock()))
        stopped = (attempt for attempt, one in self._watched.items() if one.enforced is Order.STOP)
        yield frozenset(stopped) if self._has_scanned else request.stopped
        yield Watching(attempts=len(self._watched) if self._has_scanned else None)
        yield again_s

    # --- which attempts are here -----------------------------------------------------------------

    def _find(self, request: Request, now: float) -> None:
        if self._scan is None or request.jobs != self._jobs:
            self._jobs = request.jobs
            scan = Scan(self._uid, self._jobs, self._procfs)
            self._scan = _Asked(scan.attempts, self._clock, self._threads)
            self._scanned_at = float("-inf")
        covered = {attempt.job for attempt in self._watched} >= self._jobs
        if now - self._scanned_at >= _SCAN_S or not covered or self._ended_one():
            self._scanned_at = now
            self._scan.ask()
            self._scan.wait(now + _PATIENCE_S)
        answer = self._scan.take()
        if answer is None:
            return
        self._has_scanned = True
        began_at, found = answer
        # Attempts without processes have ended; only a scan that has answered may say so.
        self._watched = {key: one for key, one in self._watched.items() if key in found}
        for attempt, tasks in sorted(found.items(), key=lambda item: -item[0].number):
            known = self._watched.get(attempt)
            if known is not None:
                known.tasks = tasks
            elif len(self._watched) < _MOST:
                stopped = attempt in request.stopped
                self._watched[attempt] = self._watch(attempt, tasks, began_at, stopped=stopped)

    def _ended_one(self) -> bool:
        return any(watched.enforced is Order.END for watched in self._watched.values())

    def _watch(self, attempt: Attempt, tasks: Tasks, began_at: float, *, stopped: bool) -> _Watched:
        watched = _Watched(
            tasks,
            Lease(proved_at=began_at, stopped=stopped),
            _Asked(lambda: None, self._clock, self._threads),
            _Asked(partial(self._is_running, attempt), self._clock, self._threads),
            was_read=stopped,
            enforced=Order.STOP if stopped else Order.GO_ON,
        )
        reader = JournalReader(
            lambda: self._open(attempt.journal, watched.tasks), attempt.number, attempt.run
        )
        watched.journal = _Asked(reader.look, self._clock, self._threads)
        return watched

    # --- what proves a lease -----------------------------------------------------------------------

    def _open(self, journal: str, tasks: Tasks) -> IO[bytes]:
        """The journal as this worker sees it, or as a task does, which may run in a container or a chroot.
        Raises OSError."""
        try:
            return open_as_user(journal)
        except OSError:
            # The path is the one that the job sees: in its mount namespace it may be another file.
            task = next(iter(tasks.pids), None)
            if task is None:
                raise
            return open_as_user(f"{self._procfs}/{task.pid}/root{journal}")

    def _is_running(self, attempt: Attempt) -> bool:
        job = self._slurm.job(attempt.job)
        # The restart count too: a requeued job that runs again is another attempt.
        return job is not None and job.state == "RUNNING" and job.restarts == attempt.run.restarts

    def _renew(self, watched: _Watched) -> None:
        lease = watched.lease
        confirmed, read = watched.slurm.take(), watched.journal.take()
        if confirmed is not None and confirmed[1]:
            began_at = confirmed[0]
            removed = watched.is_removed
            lease = lease.read(began_at, newer=False) if removed else lease.confirmed(began_at)
        if read is not None:
            watched.was_read = True
            lease = lease.read(read[0], newer=read[1] is not None)
        watched.lease = lease.at(self._clock())

    # --- what follows ------------------------------------------------------------------------------

    def _enforce(self, attempt: Attempt, watched: _Watched, *, may_act: bool) -> Iterator[Change]:
        kept = may_act and watched.has_lease(self._clock())
        order = watched.lease.order if kept else Order.GO_ON
        count = 0
        if order is Order.END:
            count = self._signal(watched, signal.SIGKILL, "")
        elif order is Order.STOP:  # again each time: Slurm sends SIGCONT before it ends a step
            count = self._signal(watched, signal.SIGSTOP, "Tt")
        elif watched.enforced is Order.STOP:
            count = self._signal(watched, signal.SIGCONT, "")
        if order is not watched.enforced:
            watched.enforced = order
            yield Change(attempt=attempt, order=order, processes=count)

    def _signal(self, watched: _Watched, number: int, but_state: str) -> int:
        return signal_all(self._uid, watched.tasks, number, but_state, self._procfs)

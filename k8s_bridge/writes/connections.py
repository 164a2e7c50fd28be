"""Several connections to the API server: jobs run in their order, on several threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

LONGEST_BESIDE_S = 1.0

Job = Callable[[], None]
Wait = Callable[[float], bool]
Beside = Callable[[Wait], None]


class Connections:
    """Runs jobs. ``count``: how many at once; with 1 they run on the calling thread."""

    def __init__(self, count: int):
        self._count = count

    def run(
        self, jobs: Iterable[Job], until: float = float("inf"), beside: Beside | None = None
    ) -> int:
        """Run them in their order until all are done or the monotonic time ``until`` has come. The number
        of jobs that were started.

        ``beside`` is called on the calling thread meanwhile, with a function that waits until all jobs have
        ended or a monotonic time has come, and returns whether they have. Jobs are started until it returns,
        for ``LONGEST_BESIDE_S`` after ``until`` at most. With one connection, or one job, it is not called.

        Raises what a job raised, such as ``KubeUnavailable``: no further job is started then, and all
        that were started have ended.
        """
        work = _Work(jobs, until, self._count)
        most = min(self._count, len(work.first))
        if most < 2:
            beside = None
        if beside is not None:
            work.until += LONGEST_BESIDE_S
        others = [
            threading.Thread(target=work.loop, name=f"write-{i}", daemon=True)
            for i in range(0 if beside else 1, most)
        ]
        work.running = len(others) + (beside is None)
        for thread in others:
            thread.start()
        try:
            if beside is None:
                work.loop()
            else:
                beside(work.wait)
        finally:
            work.end()
            for thread in others:
                thread.join()
        if work.error is not None:
            raise work.error
        return work.started


class _Work:
    """The jobs are made as they are started: of a long plan, few are started before the next one.

    ``first``: the first jobs, as many as can run at once.
    """

    def __init__(self, jobs: Iterable[Job], until: float, count: int):
        rest = iter(jobs)
        self.first = tuple(islice(rest, count))
        self._left: Iterator[Job] = chain(self.first, rest)
        self.started = 0
        self.error: BaseException | None = None
        self.running = 0
        self.until = until
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def wait(self, until: float) -> bool:
        return self._ended.wait(max(0.0, until - time.monotonic()))

    def end(self) -> None:
        """Start no further job."""
        with self._lock:
            self._left = iter(())

    def loop(self) -> None:
        while (job := self._next()) is not None:
            try:
                job()
            except BaseException as error:  # noqa: BLE001 - raised again on the calling thread
                with self._lock:
                    self.error = self.error or error

    def _next(self) -> Job | None:
        with self._lock:
            in_time = self.error is None and time.monotonic() < self.until
            job = next(self._left, None) if in_time else None
            if job is not None:
                self.started += 1
                return job
            self.running -= 1
            if not self.running:
                self._ended.set()
            return None

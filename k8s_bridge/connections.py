"""Several connections to the API server: jobs run in their order, on several threads."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

Job = Callable[[], None]


class Connections:
    """Runs jobs. ``count``: how many at once; with 1 they run on the calling thread."""

    def __init__(self, count: int):
        self._count = count

    def run(self, jobs: Iterable[Job], until: float = float("inf")) -> int:
        """Run them in their order until all are done or the monotonic time ``until`` has come. The number
        of jobs that were started.

        Raises what a job raised, such as ``KubeUnavailable``: no further job is started then, and all
        that were started have ended.
        """
        work = _Work(jobs, until)
        others = [
            threading.Thread(target=work.loop, name=f"write-{i}", daemon=True)
            for i in range(1, min(self._count, len(work.left)))
        ]
        for thread in others:
            thread.start()
        work.loop()
        for thread in others:
            thread.join()
        if work.error is not None:
            raise work.error
        return work.started


class _Work:
    def __init__(self, jobs: Iterable[Job], until: float):
        self.left = deque(jobs)
        self.started = 0
        self.error: BaseException | None = None
        self._until = until
        self._lock = threading.Lock()

    def loop(self) -> None:
        while True:
            with self._lock:
                if not self.left or self.error is not None or time.monotonic() >= self._until:
                    return
                job = self.left.popleft()
                self.started += 1
            try:
                job()
            except BaseException as error:  # noqa: BLE001 - raised again on the calling thread
                with self._lock:
                    self.error = self.error or error

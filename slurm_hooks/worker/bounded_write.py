"""A write to disk with a time limit: it runs in a process of its own, which is abandoned if the
disk does not answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from slurm_hooks.worker.termination import GRACE_S
from slurm_hooks.worker.worker import Worker, call

_DEADLINE_S = 1.0
_EXIT_S, _LOOK_S = 0.05, 0.001
"""A process that has finished its write exits within a millisecond or two, and is reaped at once.
"""


class BoundedWrite:
    """``holdfast.adapters.durable_file.Bounded`` in a contained worker: waits a second at most, and
    not at all while an earlier write hangs. ``token``: the file that names the hung process.
    """

    def __init__(self, token: Path) -> None:
        self._token = token
        self._ending: list[Worker] = []

    def __call__(self, write: Callable[[], None]) -> str:
        worker = Worker("state", lambda: _serve(write), token=self._token, keep=False)
        self._ending.append(worker)
        answer = call(worker, None, deadline_s=_DEADLINE_S)
        if answer.hung and not answer.stuck:
            time.sleep(GRACE_S)
        self._collect()
        return "the disk does not answer" if answer.hung else answer.error

    def _collect(self) -> None:
        """Reap processes that have exited. One that hangs or exits slowly is reaped by the next
        write."""
        until = time.monotonic() + _EXIT_S
        while self._ending:
            now = time.monotonic()
            for worker in self._ending:
                worker.reap(now)
            self._ending = [worker for worker in self._ending if worker.leaving]
            if now >= until or any(worker.stuck for worker in self._ending):
                return
            time.sleep(_LOOK_S)


def _serve(write: Callable[[], None]) -> Callable[[Any], Iterator[Any]]:
    def serve(_request: object) -> Iterator[Any]:
        write()
        yield from ()

    return serve

"""A write to the disk that never holds up what has to follow it: in a process that is left behind when
the disk does not answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from slurm_hooks.contain import GRACE_S, Worker, call

_DEADLINE_S = 1.0


class BoundedWrite:
    """``holdfast.adapters.kept_file.Bounded`` in a contained worker. After one write that hung none is
    tried again as long as its process lives: ``token`` remembers it.
    """

    def __init__(self, token: Path) -> None:
        self._token, self._hung = token, ""

    def __call__(self, write: Callable[[], None]) -> str:
        if self._hung:
            return self._hung
        worker = Worker("state", lambda: _serve(write), token=self._token, keep=False)
        answer = call(worker, None, deadline_s=_DEADLINE_S)
        if answer.hung:
            self._hung = f"the disk does not answer ({answer.error})"
            time.sleep(GRACE_S)
            worker.reap(time.monotonic())
            return self._hung
        return answer.error


def _serve(write: Callable[[], None]) -> Callable[[Any], Iterator[Any]]:
    def serve(_request: object) -> Iterator[Any]:
        write()
        yield from ()

    return serve

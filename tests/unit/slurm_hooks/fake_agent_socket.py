"""The agent's sockets for launchers, without the rest of the agent."""

from __future__ import annotations

import os
import select
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from slurm_hooks.agent.jobs.sockets import JobSockets
from slurm_hooks.job import marker as markers
from slurm_hooks.job.marker import Marker
from slurm_hooks.job.notice import Notice

ME = os.geteuid()
T = TypeVar("T")


class Agent:
    """The agent's side of the sockets; ``turn`` is one turn of its loop at a time of the test's."""

    def __init__(
        self, run_dir: Path, job: int, tell: Callable[[Notice], str] = lambda _: ""
    ) -> None:
        self.run_dir, self.kept = run_dir, list[Marker]()
        self.answer = ""
        self.sockets = JobSockets(run_dir, self._take, tell)
        self.sockets.serve({ME: frozenset({job})})

    def _take(self, marker: Marker) -> str:
        if not self.answer:
            self.kept.append(marker)
        return self.answer

    def connect(self) -> socket.socket | None:
        """None: the queue is full."""
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link.setblocking(False)
        try:
            link.connect(os.fspath(markers.socket_of(self.run_dir, ME)))
        except BlockingIOError:
            link.close()
            return None
        return link

    def ask(self, data: bytes, now: float = 0.0) -> str:
        link = self.connect()
        assert link is not None
        with link:
            link.send(data)
            self.sockets.turn(now)
            return link.recv(1000).decode()

    def while_it_runs(self, act: Callable[[], T]) -> T:
        """What ``act`` returns beside an agent that turns."""
        done, said = threading.Event(), list[T]()

        def run() -> None:
            said.append(act())
            done.set()

        thread = threading.Thread(target=run)
        thread.start()
        while not done.is_set():
            select.select([fd for fd, _ in self.sockets.fds()], [], [], 0.01)
            self.sockets.turn(0.0)
        thread.join()
        return said[0]


@contextmanager
def listening(job: int, tell: Callable[[Notice], str] = lambda _: "") -> Iterator[Agent]:
    """With one job of this process's user on its node."""
    with tempfile.TemporaryDirectory() as folder:  # tmp_path is too long a name for a socket
        made = Agent(Path(folder), job, tell)
        yield made
        made.sockets.close()

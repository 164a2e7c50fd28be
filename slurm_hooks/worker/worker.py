"""Contained workers: the only way in which Holdfast makes calls that may never return.

A call into the driver or a network file system can block its process so that even SIGKILL has no
effect. A process that waits for it then blocks too (``subprocess.run(timeout=)``,
``Popen.__exit__``, …). Therefore a worker is a fork in its own session with one pipe in each
direction and no other open files. Its answer is read until a deadline. After that it gets SIGTERM
and SIGKILL and is abandoned; it is reaped later if it ever exits. While it hangs, no second worker
is started for the same task.
"""

from __future__ import annotations

import os
import pickle
import select
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slurm_hooks.node.process import Process, evidence_of, process_state
from slurm_hooks.worker.child import FRAME, Serve, child_main
from slurm_hooks.worker.termination import EndingChildren, may_wait_for_cpu

_SEND_S = 0.5
"""For a request that is larger than the pipe's buffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A worker's answer to one request.

    ``items``     those received before the deadline.
    ``error``     why the answer is not complete, empty if it is.
    ``hung``      the deadline passed.
    ``stuck``     not started, because an earlier worker hangs that SIGKILL did not end.
    ``may_wait_for_cpu``  that worker is runnable: on a busy machine it may not have run since SIGKILL.
    ``evidence``  the kernel's state of the hung process (state, where it sleeps), one line.
    ``wall_s``    seconds from the request to the end.
    """

    items: tuple[Any, ...] = ()
    error: str = ""
    hung: bool = False
    stuck: bool = False
    may_wait_for_cpu: bool = False
    evidence: str = ""
    wall_s: float = 0.0

    @property
    def complete(self) -> bool:
        return not self.error and not self.hung


class Worker:
    """A child that answers one request at a time, started at the first one and kept for the next.

    ``open_`` runs once in the child and returns the function that answers requests. ``token`` is a
    file that names a child that could not be killed, so that a restarted agent does not start
    another one. ``keep`` False: the child exits after each answer. Nothing here blocks.
    """

    def __init__(
        self, name: str, open_: Callable[[], Serve], *, token: Path | None = None, keep: bool = True
    ) -> None:
        self.name = name
        self._open, self._keep = open_, keep
        self._child: Process | None = None
        self._read_fd = self._write_fd = -1
        self._buffer = bytearray()
        self._items: list[Any] = []
        self._asked_at = self._deadline = 0.0
        self._answer: Answer | None = None
        self._busy = False
        self._ending = EndingChildren(token)

    @property
    def busy(self) -> bool:
        """A request is running, or its answer was not taken yet."""
        return self._busy or self._answer is not None

    @property
    def fd(self) -> int:
        """Becomes readable with an answer; -1 while there is no child."""
        return self._read_fd

    @property
    def deadline(self) -> float | None:
        return self._deadline if self._busy else None

    @property
    def leaving(self) -> bool:
        """A child that has to exit was not reaped yet."""
        return bool(self._ending.children)

    @property
    def stuck(self) -> int | None:
        """Pid of an earlier child that SIGKILL did not end."""
        self.reap(time.monotonic())
        left = self._ending.killed
        return left.process.pid if left is not None else None

    def ask(self, request: object, *, deadline_s: float) -> None:
        """Send a request; the answer comes from ``take``. Not to be called while ``busy``."""
        now = time.monotonic()
        self._items, self._answer = [], None
        self._asked_at, self._deadline, self._busy = now, now + deadline_s, True
        self.reap(now)
        stuck = self._ending.killed
        if stuck is not None:
            pid = stuck.process.pid
            state = process_state(pid)
            waits = may_wait_for_cpu(state[0] if state else "", now - stuck.killed_at)
            self._finish(
                Answer(
                    error="an earlier probe still hangs",
                    hung=True,
                    stuck=True,
                    may_wait_for_cpu=waits,
                    evidence=f"pid {pid} from before: {evidence_of(pid)}",
                )
            )
            return
        try:
            if self._child is None:
                self._start()
            _write_all(self._write_fd, request)
        except OSError as error:
            self.close()  # a child that exited between two requests is reaped like any other
            self._finish(Answer(error=f"cannot start a worker: {error.strerror or error}"))

    def take(self) -> Answer | None:
        """The answer once it is complete or its deadline has passed, else None."""
        now = time.monotonic()
        self.reap(now)
        if self._busy:
            self._receive()
        if self._busy and now >= self._deadline:
            self._abandon(now)
        answer, self._answer = self._answer, None
        return answer

    def close(self) -> None:
        """Let the child exit: it reads the end of its requests and exits by itself."""
        if self._child is not None:
            self._ending.let_exit(self._child, time.monotonic())
        self._drop()

    def reap(self, now: float) -> None:
        """Reap children that have exited; send signals to those that should have. Never waits."""
        self._ending.reap(now)

    def _start(self) -> None:
        fds: list[int] = []
        try:
            fds += os.pipe()
            fds += os.pipe()
            sys.stdout.flush()
            sys.stderr.flush()
            parent = os.getpid()
            pid = os.fork()
        except OSError:  # no process or descriptor available: close what was opened
            for fd in fds:
                os.close(fd)
            raise
        request_read, request_write, answer_read, answer_write = fds
        if pid == 0:
            child_main(self._open, request_read, answer_write, parent)
        os.close(request_read)
        os.close(answer_write)
        os.set_blocking(answer_read, False)
        os.set_blocking(request_write, False)
        found = process_state(pid)
        self._child = Process(pid, found[1] if found else 0)
        self._read_fd, self._write_fd = answer_read, request_write
        self._buffer.clear()

    def _receive(self) -> None:
        while self._busy and self._read_fd >= 0:
            try:
                chunk = os.read(self._read_fd, 1 << 16)
            except BlockingIOError:
                return
            if not chunk:
                child = self._child
                self.close()
                pid = child.pid if child else "?"
                self._finish(Answer(error=f"the worker exited unexpectedly (pid {pid})"))
                return
            self._buffer += chunk
            self._unpack()

    def _unpack(self) -> None:
        while len(self._buffer) >= FRAME.size:
            size = FRAME.unpack_from(self._buffer)[0]
            if len(self._buffer) < FRAME.size + size:
                return
            body = bytes(self._buffer[FRAME.size : FRAME.size + size])
            del self._buffer[: FRAME.size + size]
            kind, value = pickle.loads(body)  # noqa: S301 - the writer is our own fork
            if kind == "item":
                self._items.append(value)
            else:
                self._finish(Answer(error=value or ""))
                if not self._keep:
                    self.close()

    def _finish(self, answer: Answer) -> None:
        self._busy = False
        wall_s = time.monotonic() - self._asked_at
        self._answer = replace(answer, items=tuple(self._items), wall_s=wall_s)

    def _abandon(self, now: float) -> None:
        child = self._child
        evidence = ""
        if child is not None:
            evidence = f"pid {child.pid}: {evidence_of(child.pid)}"
            self._ending.terminate(child, now)
        self._drop()
        self._finish(Answer(error="no answer before the deadline", hung=True, evidence=evidence))

    def _drop(self) -> None:
        for fd in (self._read_fd, self._write_fd):
            if fd >= 0:
                os.close(fd)
        self._child, self._read_fd, self._write_fd = None, -1, -1


def gather(workers: Sequence[Worker], *, timeout_s: float) -> None:
    """Sleep until something happened at one of the workers, at most ``timeout_s``."""
    poll = select.poll()
    for worker in workers:
        if worker.fd >= 0:
            poll.register(worker.fd, select.POLLIN)
    poll.poll(max(0.0, timeout_s) * 1000)


def call(worker: Worker, request: object, *, deadline_s: float) -> Answer:
    """Send a request and wait for the answer, at most until the deadline."""
    worker.ask(request, deadline_s=deadline_s)
    while True:
        answer = worker.take()
        if answer is not None:
            return answer
        left = (worker.deadline or 0.0) - time.monotonic()
        gather([worker], timeout_s=left)


def _write_all(fd: int, request: object) -> None:
    """In general a request is far smaller than the pipe's buffer. A list of processes may be larger: a user
    chooses how many there are. The child is idle and reads it at once."""
    body = pickle.dumps(request)
    left = memoryview(FRAME.pack(len(body)) + body)
    until = time.monotonic() + _SEND_S
    while left:
        try:
            left = left[os.write(fd, left) :]
        except BlockingIOError:
            poll = select.poll()
            poll.register(fd, select.POLLOUT)
            if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
                raise OSError("its process does not read the request") from None

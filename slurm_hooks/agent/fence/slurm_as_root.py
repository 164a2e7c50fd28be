"""Questions to slurmctld from a worker that has become a user.

A program that such a worker starts runs as the user, who may trace it, take it over, and then run anything in the
agent's own cgroup, outside of the job's limits. So a process that stays root, and knows one question only, starts
Slurm's commands.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import threading
from typing import NamedTuple, NoReturn, Protocol

from holdfast.errors import CommandError, Unavailable

_PR_SET_PDEATHSIG = 1
_MOST = 4
"""Commands at once: a user may have 16 attempts on a node."""
_LONGEST = 4096
_ARGV = ("scontrol", "show", "job")


class JobState(NamedTuple):
    """What slurmctld answers about a job."""

    state: str
    restarts: int


class _State(Protocol):
    @property
    def state(self) -> str: ...

    @property
    def restarts(self) -> int: ...


class Jobs(Protocol):
    """Where such an answer comes from."""

    def job(self, job_id: int, /) -> _State | None: ...


class SlurmAsRoot:
    """``slurm``: asked in a child of this process, which exits with it. May be used in several threads."""

    def __init__(self, slurm: Jobs) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        if os.fork() == 0:
            _child(slurm, theirs.fileno(), parent)
        theirs.close()

    def job(self, job_id: int, /) -> JobState | None:
        """Raises ``CommandError``. Waits as long as Slurm's commands may take."""
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb") as answer:
            try:
                socket.send_fds(self._socket, [str(job_id).encode()], [writer])
            except OSError as error:
                raise Unavailable(_ARGV, error.strerror or str(error)) from None
            finally:
                os.close(writer)
            return _read(answer.read(_LONGEST))

    def close(self) -> None:
        """The child exits."""
        self._socket.close()


def _read(data: bytes) -> JobState | None:
    if not data:
        raise Unavailable(_ARGV, "no answer")
    found = json.loads(data)
    if isinstance(found, str):
        raise CommandError(_ARGV, found)
    return JobState(*found) if found else None


def _child(slurm: Jobs, fd: int, parent: int) -> NoReturn:
    try:
        os.dup2(fd, 3)
        os.closerange(4, min(1 << 16, os.sysconf("SC_OPEN_MAX")))
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == parent:
            _serve(slurm, socket.socket(fileno=3))
    finally:
        os._exit(0)


def _serve(slurm: Jobs, requests: socket.socket) -> None:
    free = threading.BoundedSemaphore(_MOST)
    while True:
        request, fds, _flags, _address = socket.recv_fds(requests, 32, 1)
        if not request:
            return  # the worker has exited
        free.acquire()
        threading.Thread(target=_answer, args=(slurm, request, fds, free), daemon=True).start()


def _answer(slurm: Jobs, request: bytes, fds: list[int], free: threading.BoundedSemaphore) -> None:
    try:
        found = slurm.job(int(request))
        answer: object = [found.state, found.restarts] if found is not None else []
    except Exception as error:  # noqa: BLE001 - the other end waits for an answer
        answer = str(error)[: _LONGEST // 8]
    free.release()
    for fd in fds:
        with os.fdopen(fd, "wb") as file:
            file.write(json.dumps(answer).encode())

"""The child process of a contained worker (see ``worker``): detached from the agent, it answers
requests."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import struct
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from holdfast.errors import HoldfastError

Serve = Callable[[Any], Iterator[Any]]
"""Answers one request, item by item, so that the items before a hang are kept."""

FRAME = struct.Struct("!I")
"""A message is its length and its pickle. Pickle is safe here: both ends are the same program."""

_PR_SET_PDEATHSIG = 1


def child_main(
    open_: Callable[[], Serve], request_fd: int, answer_fd: int, parent: int
) -> NoReturn:
    status = 70
    try:
        _detach(request_fd, answer_fd, parent)
        _serve(open_, 3, 4)
        status = 0
    except BaseException:  # noqa: BLE001 - no code of the parent's stack may run in the child
        status = 70
    finally:
        os._exit(status)


def _detach(request_fd: int, answer_fd: int, parent: int) -> None:
    """Start a session, reset signals, and close all descriptors but the two pipes (as 3 and 4)."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)  # a Python handler would not run inside a C call
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    null = os.open(os.devnull, os.O_RDWR)
    request_fd, answer_fd = os.dup(request_fd), os.dup(answer_fd)
    high = max(request_fd, answer_fd, null, 10) + 1
    os.dup2(request_fd, high)
    os.dup2(answer_fd, high + 1)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.dup2(high, 3)
    os.dup2(high + 1, 4)
    os.closerange(5, min(1 << 16, os.sysconf("SC_OPEN_MAX")))
    # The worker must not outlive its agent.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def _serve(open_: Callable[[], Serve], request_fd: int, answer_fd: int) -> None:
    serve: Serve | None = None
    with os.fdopen(request_fd, "rb") as requests, os.fdopen(answer_fd, "wb") as answers:
        while head := requests.read(FRAME.size):
            request = pickle.loads(requests.read(FRAME.unpack(head)[0]))  # noqa: S301 - from our parent
            error = ""
            try:
                serve = serve or open_()
                for item in serve(request):
                    send(answers, ("item", item))
            except HoldfastError as problem:
                error = str(problem)
            except Exception as problem:  # noqa: BLE001 - an internal error is an answer, not an exit
                error = f"{type(problem).__name__}: {problem}"
            send(answers, ("end", error))


def send(stream: Any, value: object) -> None:
    body = pickle.dumps(value)
    stream.write(FRAME.pack(len(body)) + body)
    stream.flush()

"""Abandonable workers: the only way in which Holdfast calls what may never return.

A call into the driver or a network file system can put its process to sleep where no signal reaches
it. Whoever waits for such a process waits with it (``subprocess.run(timeout=)``,
``Popen.__exit__``, ``multiprocessing`` all do). So: a worker is a fork in its own session with one
pipe each way and nothing else of ours open; its answer is read until a deadline; then it is told to
go (SIGTERM, SIGKILL) and left behind, reaped later if it ever ends, and as long as it lives no
second worker joins it in the same trap.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pickle
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from holdfast.errors import HoldfastError

GRACE_S = 0.1
"""Between SIGTERM and SIGKILL. SIGKILL of a process inside NVML has frozen a GPU (dcgm-exporter
84): TERM first.
"""

Serve = Callable[[Any], Iterator[Any]]
"""Answers one request, item by item, so that what came before a hang is kept."""

_PR_SET_PDEATHSIG = 1
_FRAME = struct.Struct("!I")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``items`` came in time. ``error`` says why not all did; ``hung`` that the deadline passed.

    ``stuck``: it is an earlier worker that hangs, one that SIGKILL did not end. ``evidence`` is
    what the kernel said of the hung process (state, where it sleeps), one line.
    """

    items: tuple[Any, ...] = ()
    error: str = ""
    hung: bool = False
    stuck: bool = False
    evidence: str = ""
    wall_s: float = 0.0

    @property
    def complete(self) -> bool:
        return not self.error and not self.hung


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    start: int

    def alive(self, procfs: str = "/proc") -> bool:
        """Still the same process, and more than a zombie."""
        found = process_state(self.pid, procfs)
        return found is not None and found[1] == self.start and found[0] not in "ZX"


def process_state(pid: int, procfs: str = "/proc") -> tuple[str, int] | None:
    """(state letter, start time in ticks since boot), or None once the pid is gone (proc(5))."""
    try:
        text = Path(procfs, str(pid), "stat").read_text(errors="replace")
        rest = text.rsplit(")", 1)[1].split()
        return rest[0], int(rest[19])
    except (OSError, IndexError, ValueError):
        return None


def evidence_of(pid: int, procfs: str = "/proc") -> str:
    """Where a hung process sleeps. Only files that take no lock of that process's memory are
    read.
    """
    state = process_state(pid, procfs)
    said = [f"state {state[0]}" if state else "gone"]
    for name in ("wchan", "stack"):
        try:
            text = Path(procfs, str(pid), name).read_text(errors="replace")
        except OSError:
            continue
        words = [line.split()[-1] for line in text.splitlines() if line.split()][:4]
        if words and words != ["0"]:
            said.append(f"{name} {' < '.join(words)}")
    return ", ".join(said)


class Worker:
    """A child that answers one request at a time, started at the first one and kept for the next.

    ``open_`` runs once in the child and returns what answers requests. ``token`` is a file that
    remembers a child that could not be killed, so that a restarted agent does not send another one
    after it. Nothing here ever blocks.
    """

    def __init__(
        self, name: str, open_: Callable[[], Serve], *, token: Path | None = None, keep: bool = True
    ) -> None:
        self.name = name
        self._open, self._token, self._keep = open_, token, keep
        self._child: _Process | None = None
        self._read_fd = self._write_fd = -1
        self._buffer = bytearray()
        self._items: list[Any] = []
        self._asked_at = self._deadline = 0.0
        self._answer: Answer | None = None
        self._busy = False
        self._leaving: list[_Leaving] = []
        self._adopt_token()

    # --- the caller's side ---------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """A request is under way and its answer was not taken yet."""
        return self._busy or self._answer is not None

    @property
    def fd(self) -> int:
        """Readable when an answer may be there; -1 while there is no child."""
        return self._read_fd

    @property
    def deadline(self) -> float | None:
        return self._deadline if self._busy else None

    @property
    def stuck(self) -> int | None:
        """Pid of an earlier child that still cannot die."""
        self.reap(time.monotonic())
        return next((left.process.pid for left in self._leaving if left.killed), None)

    def ask(self, request: object, *, deadline_s: float) -> None:
        """Send a request; the answer comes from ``take``. Not to be called while ``busy``."""
        now = time.monotonic()
        self._items, self._answer = [], None
        self._asked_at, self._deadline, self._busy = now, now + deadline_s, True
        stuck = self.stuck
        if stuck is not None:
            evidence = f"pid {stuck} from before: {evidence_of(stuck)}"
            error = "an earlier probe still hangs"
            self._finish(Answer(error=error, hung=True, stuck=True, evidence=evidence))
            return
        try:
            if self._child is None:
                self._start()
            _write_all(self._write_fd, request)
        except OSError as error:
            self._drop()
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
        """Let the child go: it reads the end of its requests and leaves by itself."""
        if self._child is not None:
            self._leaving.append(_Leaving(self._child, time.monotonic()))
        self._drop()

    def reap(self, now: float) -> None:
        """Collect children that ended; push those that should have. Never waits."""
        staying = []
        for left in self._leaving:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(left.process.pid, os.WNOHANG)
            if not left.process.alive():
                self._forget(left)
                continue
            if now >= left.next_at and not left.killed:
                left.push(now)
                if left.killed:
                    self._remember(left.process)
            staying.append(left)
        self._leaving = staying

    # --- start, receive, end -------------------------------------------------------------------

    def _start(self) -> None:
        request_read, request_write = os.pipe()
        answer_read, answer_write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _child_main(self._open, request_read, answer_write, parent)
        os.close(request_read)
        os.close(answer_write)
        os.set_blocking(answer_read, False)
        os.set_blocking(request_write, False)
        found = process_state(pid)
        self._child = _Process(pid, found[1] if found else 0)
        self._read_fd, self._write_fd = answer_read, request_write
        self._buffer.clear()

    def _receive(self) -> None:
        while self._busy and self._read_fd >= 0:
            try:
                chunk = os.read(self._read_fd, 1 << 16)
            except BlockingIOError:
                return
            if not chunk:
                died = self._child
                self.close()
                self._finish(Answer(error=f"the worker died (pid {died.pid if died else '?'})"))
                return
            self._buffer += chunk
            self._unpack()

    def _unpack(self) -> None:
        while len(self._buffer) >= _FRAME.size:
            size = _FRAME.unpack_from(self._buffer)[0]
            if len(self._buffer) < _FRAME.size + size:
                return
            body = bytes(self._buffer[_FRAME.size : _FRAME.size + size])
            del self._buffer[: _FRAME.size + size]
            kind, value = pickle.loads(body)  # noqa: S301 - the writer is our own fork
            if kind == "item":
                self._items.append(value)
            else:
                self._finish(Answer(error=value or ""))
                if not self._keep:
                    self.close()

    def _finish(self, answer: Answer) -> None:
        self._busy = False
        self._answer = Answer(
            items=tuple(self._items),
            error=answer.error,
            hung=answer.hung,
            stuck=answer.stuck,
            evidence=answer.evidence,
            wall_s=time.monotonic() - self._asked_at,
        )

    def _abandon(self, now: float) -> None:
        child = self._child
        evidence = ""
        if child is not None:
            evidence = f"pid {child.pid}: {evidence_of(child.pid)}"
            left = _Leaving(child, now)
            left.push(now)
            self._leaving.append(left)
        self._drop()
        self._finish(Answer(error="no answer before the deadline", hung=True, evidence=evidence))

    def _drop(self) -> None:
        for fd in (self._read_fd, self._write_fd):
            if fd >= 0:
                os.close(fd)
        self._child, self._read_fd, self._write_fd = None, -1, -1

    # --- the stuck token -----------------------------------------------------------------------

    def _adopt_token(self) -> None:
        if self._token is None:
            return
        try:
            said = json.loads(self._token.read_text())
            process = _Process(int(said["pid"]), int(said["start"]))
        except (OSError, ValueError, KeyError, TypeError):
            return
        if process.alive():
            self._leaving.append(_Leaving(process, 0.0, killed=True))
        else:
            self._token.unlink(missing_ok=True)

    def _remember(self, process: _Process) -> None:
        if self._token is None:
            return
        try:
            self._token.parent.mkdir(parents=True, exist_ok=True)
            fresh = self._token.with_suffix(".new")
            fresh.write_text(json.dumps({"pid": process.pid, "start": process.start}))
            fresh.replace(self._token)
        except OSError:
            pass  # only a restart of the agent would have read it

    def _forget(self, left: _Leaving) -> None:
        if left.killed and self._token is not None:
            with contextlib.suppress(OSError):
                self._token.unlink(missing_ok=True)


@dataclass(slots=True)
class _Leaving:
    """A child that was told to go: when to push next, and whether SIGKILL was sent."""

    process: _Process
    next_at: float
    killed: bool = False
    _signals: list[signal.Signals] = field(default_factory=lambda: [signal.SIGTERM, signal.SIGKILL])

    def push(self, now: float) -> None:
        if not self._signals:
            return
        which = self._signals.pop(0)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, which)
        self.killed = which is signal.SIGKILL
        self.next_at = now + GRACE_S


def gather(workers: Sequence[Worker], *, timeout_s: float) -> None:
    """Sleep until something happened at one of the workers, at most ``timeout_s``."""
    poll = select.poll()
    for worker in workers:
        if worker.fd >= 0:
            poll.register(worker.fd, select.POLLIN)
    poll.poll(max(0.0, timeout_s) * 1000)


def call(worker: Worker, request: object, *, deadline_s: float) -> Answer:
    """Ask and wait for the answer; at most the deadline."""
    worker.ask(request, deadline_s=deadline_s)
    while True:
        answer = worker.take()
        if answer is not None:
            return answer
        left = (worker.deadline or 0.0) - time.monotonic()
        gather([worker], timeout_s=left)


# --- the child's side -----------------------------------------------------------------------------


def _child_main(
    open_: Callable[[], Serve], request_fd: int, answer_fd: int, parent: int
) -> NoReturn:
    status = 70
    try:
        _detach(request_fd, answer_fd, parent)
        _serve(open_, 3, 4)
        status = 0
    except BaseException:  # noqa: BLE001 - nothing of the parent's stack may run here
        status = 70
    finally:
        os._exit(status)


def _detach(request_fd: int, answer_fd: int, parent: int) -> None:
    """Own session, default signals, nothing open but the two pipes (as 3 and 4)."""
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
    # The worker must not outlive the agent that alone knows of it.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def _serve(open_: Callable[[], Serve], request_fd: int, answer_fd: int) -> None:
    serve: Serve | None = None
    with os.fdopen(request_fd, "rb") as requests, os.fdopen(answer_fd, "wb") as answers:
        while head := requests.read(_FRAME.size):
            request = pickle.loads(requests.read(_FRAME.unpack(head)[0]))  # noqa: S301 - from our parent
            error = ""
            try:
                serve = serve or open_()
                for item in serve(request):
                    _send(answers, ("item", item))
            except HoldfastError as problem:
                error = str(problem)
            except Exception as problem:  # noqa: BLE001 - a fault of ours is an answer, not a death
                error = f"{type(problem).__name__}: {problem}"
            _send(answers, ("end", error))


def _send(stream: Any, value: object) -> None:
    body = pickle.dumps(value)
    stream.write(_FRAME.pack(len(body)) + body)
    stream.flush()


def _write_all(fd: int, request: object) -> None:
    body = pickle.dumps(request)
    data = _FRAME.pack(len(body)) + body
    # A request is far smaller than the pipe's buffer, and the child is idle: this never blocks.
    if os.write(fd, data) != len(data):
        raise OSError("request too large for the pipe")

"""The process that runs pyslurm, as its client sees it: requests and replies over two pipes."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.adapters.command import PATH
from holdfast.errors import Unavailable
from holdfast.slurm.cli import ENV

_left: set[subprocess.Popen[bytes]] = set()
"""Workers killed and not waited for, as in ``holdfast.adapters.command``."""


class WorkerProcess:
    """The worker process and its two pipes. Every wait on it is bounded."""

    def __init__(self, argv: Sequence[str], token: Mapping[str, str]):
        """Raises ``Unavailable`` when it cannot start. ``token``: more environment."""
        self.token = token
        for before in tuple(_left):
            if before.poll() is not None:
                _left.discard(before)
        merged = {"PATH": PATH, **os.environ, **ENV, **token}
        # libslurm writes to its standard error; in a file it cannot block, and no disk is needed.
        self._messages = os.memfd_create("holdfast-pyslurm", os.MFD_CLOEXEC)
        try:
            self._process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._messages,
                env={name: value for name, value in merged.items() if value is not None},
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            os.close(self._messages)
            problem = f"cannot start: {error.strerror or error}"
            raise Unavailable(argv, problem) from None
        assert self._process.stdin is not None  # noqa: S101 - piped above
        assert self._process.stdout is not None  # noqa: S101 - piped above
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._rest = b""

    def alive(self) -> bool:
        """False once it has exited."""
        return self._process.poll() is None

    def ask(
        self, request: Mapping[str, Any], argv: Sequence[str], timeout_s: float
    ) -> dict[str, Any]:
        """The reply to one request. Raises ``Unavailable``; the worker is of no use then."""
        os.ftruncate(self._messages, 0)
        os.lseek(self._messages, 0, os.SEEK_SET)
        end = time.monotonic() + timeout_s
        left = memoryview(json.dumps(request).encode() + b"\n")
        while left:
            self._wait(self._in, select.POLLOUT, argv, end, timeout_s)
            try:
                left = left[os.write(self._in, left) :]
            except BlockingIOError:
                continue
            except OSError:
                raise self._ended(argv) from None
        return self._line(argv, end, timeout_s)

    def read(self, argv: Sequence[str], timeout_s: float) -> dict[str, Any]:
        """The next line that it writes. Raises as ``ask`` does."""
        return self._line(argv, time.monotonic() + timeout_s, timeout_s)

    def _line(self, argv: Sequence[str], end: float, timeout_s: float) -> dict[str, Any]:
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            self._wait(self._out, select.POLLIN, argv, end, timeout_s)
            part = os.read(self._out, 1 << 20)
            if not part:
                raise self._ended(argv)
            parts.append(part)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise Unavailable(argv, f"answer not understood: {line[:80]!r}")
        return row

    def _wait(self, fd: int, event: int, argv: Sequence[str], end: float, timeout_s: float) -> None:
        poll = select.poll()
        poll.register(fd, event)
        if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
            raise Unavailable(argv, f"no answer in {timeout_s:g} s")

    def _ended(self, argv: Sequence[str]) -> Unavailable:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        status = self._process.poll()
        size = os.fstat(self._messages).st_size
        text = os.pread(self._messages, 4096, max(0, size - 4096)).decode(errors="replace")
        return Unavailable(argv, f"its process ended with status {status}", text, status)

    def kill(self) -> None:
        """Kill without waiting: a process in uninterruptible sleep would hold us for ever."""
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        os.close(self._messages)
        _left.add(self._process)

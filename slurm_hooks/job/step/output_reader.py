"""Hears all that an attempt prints, and diagnoses it meanwhile.

Standard error comes through the launcher's pipe. Files are read as they grow: the file of the batch
script's standard output, and those of ``srun --output`` and ``--error``. So nothing is put between the
program and its output. A thread reads them, since a shared filesystem may hang.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from holdfast.adapters import safe_file
from slurm_hooks.job.diagnosis.causes import Engine
from slurm_hooks.job.diagnosis.lines.clock import local_now
from slurm_hooks.job.diagnosis.lines.line import Diagnosis
from slurm_hooks.job.step import output_files

_EVERY_S = 10.0
_MAX_FILES = 256
_BLOCK_BYTES = 64 << 10
_ROUND_BYTES = 16 << 20
"""Of one file in one round, so that a program that floods one file does not hide the others."""
_LAST_ROUND_S = 3.0
STDERR = "stderr"
STDOUT = "stdout"


class _Followed:
    """A file that grows. ``offset``: how much of it was read, or was there before the attempt."""

    def __init__(self, name: str, file: IO[bytes], offset: int) -> None:
        self.name, self._file, self._offset = name, file, offset

    def read(self) -> bytes:
        size = os.fstat(self._file.fileno()).st_size
        if size < self._offset:
            self._offset = 0  # it was truncated and begins again
        data = os.pread(self._file.fileno(), min(_BLOCK_BYTES, size - self._offset), self._offset)
        self._offset += len(data)
        return data

    def close(self) -> None:
        self._file.close()


class Listener:
    """Feeds an ``Engine`` with the outputs of one attempt.

    ``heard_at``  when something was printed last (``time.monotonic``).
    ``tap``       is given a copy of standard error; None: nobody wants one.
    ``hear``      is given each piece that is printed, with the name of its output, in several threads.
    """

    def __init__(self, engine: Engine, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self._engine, self._env = engine, env
        self._lock = threading.Lock()
        self._files: dict[str, _Followed] = {}
        self._patterns: dict[tuple[str, Path], bool] = {}
        self._pending = bytearray()
        self._pid = 0
        self._stop = threading.Event()
        self.heard_at = time.monotonic()
        self.tap: Callable[[bytes], None] | None = None
        self.hear: Callable[[str, bytes], None] = _ignore
        self._own = _own_output()
        self._stderr_is_in_file = self._own is not None and _same_file(1, 2)
        if self._own:
            self._files[STDOUT] = self._own
        self._add(argv, Path.cwd(), started=True)
        self._thread = threading.Thread(target=self._run, daemon=True, name="listen")

    def start(self, pid: int) -> None:
        """``pid``: the attempt's command."""
        self._pid = pid
        self._thread.start()

    @property
    def hears_stdout(self) -> bool:
        """Whether what the batch script prints to standard output is heard."""
        return self._own is not None

    def so_far(self) -> Diagnosis:
        """The cause according to what has been printed until now."""
        with self._lock:
            self._take_pending()
            return self._engine.diagnosis()

    def stderr(self, data: bytes) -> None:
        """What came through the pipe. In a file that is followed anyway it would count twice."""
        self.heard_at = time.monotonic()
        if self.tap:
            self.tap(data)
        if self._stderr_is_in_file:
            return
        self.hear(STDERR, data)
        with self._lock:
            self._pending += data
            if len(self._pending) >= _BLOCK_BYTES:
                self._take_pending()

    def finish(self) -> Diagnosis:
        """Reads the rest and returns the cause. Waits a few seconds at most."""
        self._stop.set()
        if self._pid:
            self._thread.join(_LAST_ROUND_S + 1.0)
        with self._lock:
            self._take_pending()
            for name in (STDERR, *list(self._files)):
                self._engine.end(name)
            return self._engine.diagnosis()

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_S):
            with self._lock:
                self._take_pending()
            self._round(self._stop.is_set)
        end = time.monotonic() + _LAST_ROUND_S
        self._round(lambda: time.monotonic() > end)
        for followed in self._files.values():
            followed.close()

    def _round(self, is_over: Callable[[], bool]) -> None:
        for argv, folder in output_files.sruns_below(self._pid):
            self._add(argv, folder, started=False)
        self._open()
        for followed in list(self._files.values()):
            left = _ROUND_BYTES
            try:
                while left > 0 and not is_over() and (data := followed.read()):
                    self._feed(followed.name, data)
                    self.heard_at = time.monotonic()
                    left -= len(data)
            except OSError:
                continue  # it can be read again when the filesystem answers

    def _take_pending(self) -> None:
        """Many small pieces cost more than one."""
        self._engine.feed(STDERR, bytes(self._pending), local_now())
        self._pending.clear()

    def _feed(self, name: str, data: bytes) -> None:
        self.hear(name, data)
        with self._lock:
            self._engine.feed(name, data, local_now())

    def _add(self, argv: Sequence[str], folder: Path, *, started: bool) -> None:
        """Notes the files of an srun. Before it has ``started``, what they hold is older."""
        for name in output_files.names(argv, self._env):
            if (name, folder) not in self._patterns:
                append = any(word in ("append", "--open-mode=append") for word in argv)
                append = append or self._env.get("SLURM_OPEN_MODE") == "append"
                self._patterns[name, folder] = append
                if started or append:
                    self._open(old=True)

    def _open(self, *, old: bool = False) -> None:
        for pattern, folder in list(self._patterns):
            for path in output_files.files(pattern, self._env, folder, _MAX_FILES):
                name = str(path)
                if name in self._files or len(self._files) >= _MAX_FILES:
                    continue
                try:
                    file, size, _ = safe_file.open_regular(path, buffer_bytes=0)
                except OSError:
                    continue
                self._files[name] = _Followed(name, file, size if old else 0)


def _ignore(name: str, data: bytes) -> None:  # noqa: ARG001
    return


def _own_output() -> _Followed | None:
    """The file of this process's standard output, if it is one."""
    try:
        facts = os.fstat(1)
        if not stat.S_ISREG(facts.st_mode):
            return None
        fd = os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    return _Followed(STDOUT, os.fdopen(fd, "rb", buffering=0), facts.st_size)


def _same_file(one: int, other: int) -> bool:
    try:
        return os.path.samestat(os.fstat(one), os.fstat(other))
    except OSError:
        return False

"""Limits the size of the agent's own log, if it is a file (as when the health check starts the
agent)."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

MAX_BYTES = 10 << 20


def keep_small(max_bytes: int = MAX_BYTES) -> None:
    """Start a new file if standard error is a ``.log`` file that has grown too large; the old one
    is renamed to ``….log.1``. Anything else is left alone. Never raises."""
    with contextlib.suppress(OSError):
        found = os.fstat(2)
        if not stat.S_ISREG(found.st_mode) or found.st_size <= max_bytes:
            return
        path = Path("/proc/self/fd/2").readlink()
        if path.suffix != ".log" or not os.path.samestat(found, path.lstat()):
            return
        path.replace(path.with_suffix(".log.1"))
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        for standard in (1, 2):
            os.dup2(fd, standard)
        os.close(fd)

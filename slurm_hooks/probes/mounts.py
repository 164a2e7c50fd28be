"""Mount points: there, answering, writable, not full. Runs only inside a contained worker: any call
may hang.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from slurm_hooks.facts import MountFacts, MountState

_ESCAPED = re.compile(r"\\([0-7]{3})")
_STATES = {
    errno.EROFS: MountState.READ_ONLY,
    errno.ENOSPC: MountState.FULL,
    errno.EDQUOT: MountState.FULL,
    errno.ENOTCONN: MountState.GONE,
    errno.ESTALE: MountState.GONE,
    errno.ENOENT: MountState.GONE,
}


def open_probe(procfs: str = "/proc") -> Callable[[object], Iterator[MountFacts]]:
    """Answers a path with its facts."""

    def serve(path: object) -> Iterator[MountFacts]:
        yield read(str(path), procfs)

    return serve


def read(path: str, procfs: str = "/proc") -> MountFacts:
    """Look at one mount point. The probe file is ours alone, some bytes long, and removed at
    once.
    """
    if path not in mount_points(procfs):
        return MountFacts(path=path, state=MountState.GONE, detail="not mounted")
    began = time.monotonic()
    try:
        space = os.statvfs(path)
        free, total = space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize
        _write_read_remove(Path(path))
    except OSError as error:
        state = _STATES.get(error.errno or 0, MountState.ERROR)
        detail = f"{error.strerror} ({errno.errorcode.get(error.errno or 0, error.errno)})"
        return MountFacts(path=path, state=state, detail=detail)
    return MountFacts(
        path=path,
        state=MountState.OK,
        latency_s=time.monotonic() - began,
        free_bytes=free,
        total_bytes=total,
    )


def mount_points(procfs: str = "/proc") -> set[str]:
    """Every mount point of this mount namespace, from /proc/self/mounts (which never touches the
    mounts).
    """
    text = Path(procfs, "self", "mounts").read_text(errors="surrogateescape")
    fields = (line.split(" ") for line in text.splitlines())
    return {
        _ESCAPED.sub(lambda match: chr(int(match.group(1), 8)), f[1]) for f in fields if len(f) > 1
    }


def _write_read_remove(folder: Path) -> None:
    said = f"holdfast {os.uname().nodename} {os.getpid()}\n".encode()
    probe = folder / f".holdfast-probe-{os.uname().nodename}-{os.getpid()}"
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(probe, flags, 0o600)
    try:
        os.write(fd, said)
        os.fsync(fd)
        if os.pread(fd, len(said) + 1, 0) != said:
            raise OSError(errno.EIO, "what was written does not read back")
    finally:
        os.close(fd)
        probe.unlink(missing_ok=True)

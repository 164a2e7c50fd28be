"""Mount points: mounted, responsive, writable, not full. It runs only in a contained worker, because
any call may hang.
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
    """Test one mount point: write, read and remove a small file of its own."""
    mounted = mount_points(procfs).get(path)
    if mounted is None:
        return MountFacts(path=path, state=MountState.GONE, detail="not mounted")
    fs_type, source = mounted
    began = time.monotonic()
    try:
        space = os.statvfs(path)
        _write_read_remove(Path(path))
    except OSError as error:
        state = _STATES.get(error.errno or 0, MountState.ERROR)
        detail = f"{error.strerror} ({errno.errorcode.get(error.errno or 0, error.errno)})"
        return MountFacts(path=path, state=state, detail=detail, fs_type=fs_type, source=source)
    return MountFacts(
        path=path,
        state=MountState.OK,
        latency_s=time.monotonic() - began,
        free_bytes=space.f_bavail * space.f_frsize,
        total_bytes=space.f_blocks * space.f_frsize,
        free_inodes=space.f_favail,
        inodes=space.f_files,
        fs_type=fs_type,
        source=source,
    )


def mount_points(procfs: str = "/proc") -> dict[str, tuple[str, str]]:
    """Mount point → (filesystem type, source) of this mount namespace, from /proc/self/mounts
    (which does not access the mounts). If several are mounted at one path, the topmost one.
    """
    text = Path(procfs, "self", "mounts").read_text(errors="surrogateescape")
    found = {}
    for line in text.split("\n"):  # users choose names of FUSE mounts, with any other line break
        words = [_plain(word) for word in line.split(" ")]
        if len(words) > 2:
            found[words[1]] = (words[2], words[0])
    return found


def _plain(word: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match.group(1), 8)), word)


def _write_read_remove(folder: Path) -> None:
    """The name is unpredictable and must not exist: users may write in this folder, and the agent runs
    as root.
    """
    content = f"holdfast {os.uname().nodename} {os.getpid()}\n".encode()
    probe = folder / f".holdfast-probe-{os.uname().nodename}-{os.urandom(8).hex()}"
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(probe, flags, 0o600)
    try:
        os.write(fd, content)
        os.fsync(fd)
        if os.pread(fd, len(content) + 1, 0) != content:
            raise OSError(errno.EIO, "read back other data than was written")
    finally:
        os.close(fd)
        probe.unlink(missing_ok=True)

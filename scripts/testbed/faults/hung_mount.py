"""A file system that never answers: a process that touches it sleeps in state D and survives SIGKILL.

    hung_mount.py /mnt/training          mounts it there and continues in the background
    hung_mount.py --end /mnt/training    ends it; waiting processes get an error

Runs inside a node and ends with the node; standard library only. It speaks FUSE over /dev/fuse
(linux/fuse.h): it answers the kernel's first request and then reads every request without answering.
The kernel makes a process wait uninterruptibly once the server has read the request and does not
support INTERRUPT; both hold here. The server exits when its mount is gone; the kernel then answers
all waiting processes.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path

_INIT, _INTERRUPT = 26, 36
_HEADER_IN = struct.Struct("<IIQQIIIHH")  # len opcode unique nodeid uid gid pid extlen padding
_HEADER_OUT = struct.Struct("<IiQ")  # len error unique
_INIT_OUT = struct.Struct("<IIIIHHIIHHI28x")
"""major minor max_readahead flags max_background congestion max_write time_gran max_pages map_alignment flags2"""
_BUFFER_BYTES = 1 << 17
_MS_NOSUID, _MS_NODEV, _MNT_DETACH = 2, 4, 2
_SOURCE = "hung-storage"
_PATIENCE_S = 6.0
"""For a server whose mount is gone: it ends by itself, else by SIGKILL after half of it."""

_libc = ctypes.CDLL(None, use_errno=True)


def main(argv: Sequence[str]) -> int:
    if argv[0] == "--end":
        return end(argv[1])
    read, write = os.pipe()
    if os.fork() == 0:
        os.close(read)
        _become_daemon()
        serve(argv[0], write)
        os._exit(0)
    os.close(write)
    message = os.read(read, 4096).decode()
    if message != "ready":
        print(message or "the server ended at once", file=sys.stderr)
        return 1
    return 0


def end(target: str) -> int:
    """Unmount it; returns when its server has exited. Never accesses the mount itself."""
    while any(where == target for where, _ in _hung_mounts()):
        if _libc.umount2(os.fsencode(target), _MNT_DETACH):
            print(f"umount {target}: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
            return 1
    begin = time.monotonic()
    while servers := [pid for pid in _pids() if _serves(Path(f"/proc/{pid}"), target)]:
        waited_s = time.monotonic() - begin
        if waited_s > _PATIENCE_S:
            print(f"the server of {target} does not end", file=sys.stderr)
            return 1
        if waited_s > _PATIENCE_S / 2:
            for pid in servers:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return 0


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def serve(target: str, ready: int) -> None:
    """Mount, report to ``ready``, then read requests until the mount is gone."""
    try:
        fuse = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        _mount(target, fuse)
        mounted = _our_mount(target)
        _refuse_interrupts(target, fuse)
    except OSError as error:
        os.write(
            ready,
            f"{target}: {error.strerror} ({errno.errorcode.get(error.errno or 0, '?')})".encode(),
        )
        return
    os.write(ready, b"ready")
    os.close(ready)
    with open("/proc/self/mountinfo") as table:  # noqa: PTH123 - polled: becomes ready at each change
        watch = select.poll()
        watch.register(table.fileno(), select.POLLERR | select.POLLPRI)
        watch.register(fuse, select.POLLIN)
        while _our_mount(target) == mounted:
            for fd, _ in watch.poll():
                if fd == fuse:
                    _take(fuse)


def _take(fuse: int) -> tuple[int, int, int] | None:
    """(opcode, unique, pid) of the next request, which now waits for an answer; None when there is none."""
    try:
        request = os.read(fuse, _BUFFER_BYTES)
    except OSError as error:
        if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
            return None  # the request was withdrawn before it was read
        raise
    head = _HEADER_IN.unpack_from(request)
    if head[1] == _INIT:
        major, _, readahead, _ = struct.unpack_from("<IIII", request, _HEADER_IN.size)
        answer = _INIT_OUT.pack(major, 31, readahead, 0, 12, 9, 1 << 16, 1, 0, 0, 0)
        os.write(fuse, _HEADER_OUT.pack(_HEADER_OUT.size + len(answer), 0, head[2]) + answer)
    elif head[1] == _INTERRUPT:
        os.write(fuse, _HEADER_OUT.pack(_HEADER_OUT.size, -errno.ENOSYS, head[2]))
    return head[1], head[2], head[6]


def _refuse_interrupts(target: str, fuse: int) -> None:
    """Make the kernel learn that INTERRUPT is not supported.

    A child sends a request and is killed; the kernel then sends INTERRUPT once, and gets ENOSYS.
    """
    child = os.fork()
    if child == 0:
        os.close(fuse)
        try:
            Path(target).stat()
        finally:
            os._exit(0)
    request = None
    while (taken := _take(fuse)) is None or taken[0] != _INTERRUPT:
        # The agent may look into the folder first. A child that is killed before its request was read leaves
        # nothing to interrupt.
        if taken is not None and taken[2] == child:
            request = taken[1]
            os.kill(child, signal.SIGKILL)
    os.write(fuse, _HEADER_OUT.pack(_HEADER_OUT.size, -errno.EIO, request))
    os.waitpid(child, 0)


def _mount(target: str, fuse: int) -> None:
    options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0,allow_other"
    arguments = (_SOURCE, target, "fuse", _MS_NOSUID | _MS_NODEV, options)
    encoded = [os.fsencode(word) if isinstance(word, str) else word for word in arguments]
    if _libc.mount(*encoded):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _hung_mounts() -> list[tuple[str, str]]:
    """(mount point, mount id) of each, oldest first. Reads a table and accesses no mount."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, source = line.partition(" - ")
        words = fields.split(" ")
        if source.split(" ")[1:2] == [_SOURCE]:
            found.append((words[4], words[0]))
    return found


def _our_mount(target: str) -> str | None:
    return next((number for where, number in reversed(_hung_mounts()) if where == target), None)


def _serves(process: Path, target: str) -> bool:
    try:
        words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        dead = (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False
    return not dead and words[-2:] == [target, ""] and Path(words[-3]).name == Path(__file__).name


def _become_daemon() -> None:
    os.setsid()
    os.chdir("/")
    null = os.open("/dev/null", os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

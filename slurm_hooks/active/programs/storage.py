"""Writes a file on each mount, reads it back without the page cache, and compares the data.

It uses direct I/O where the filesystem supports it; otherwise it syncs the file and drops its pages.
It prints one JSON object before it accesses a mount and one after, so that a mount that never
answers is known.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

PREFIX = ".holdfast-storage-"
_BLOCK = 4 << 20


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("mounts", nargs="+")
    parser.add_argument("--size-mib", type=int, default=256)
    args = parser.parse_args()
    for mount in args.mounts:
        _say({"mount": mount, "begun": True})
        try:
            _say({"mount": mount, **measure(Path(mount), args.size_mib << 20)})
        except OSError as error:
            _say({"mount": mount, "error": error.strerror or str(error)})
    return 0


def _say(values: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def measure(mount: Path, size: int) -> dict[str, Any]:
    """MB/s (10^6 bytes) written and read. Raises OSError."""
    if not os.path.ismount(mount):
        return {"error": "not mounted"}
    host = os.uname().nodename
    for left in mount.glob(f"{PREFIX}{host}.*"):  # from a run that was killed
        left.unlink(missing_ok=True)
    path = mount / f"{PREFIX}{host}.{os.getpid()}"
    block = mmap.mmap(-1, _BLOCK)  # page-aligned, as direct I/O requires
    block.write(os.urandom(_BLOCK))
    try:
        written_s, direct = _write(path, block, size)
        read_s, wrong = _read(path, block, size, direct)
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)
    return {
        "size": size,
        "write_mb_s": size / written_s / 1e6,
        "read_mb_s": size / read_s / 1e6,
        "wrong_blocks": wrong,
        "direct": direct,
    }


def _open(path: Path, flags: int) -> tuple[int, bool]:
    with suppress(OSError):
        return os.open(path, flags | os.O_DIRECT, 0o600), True
    return os.open(path, flags, 0o600), False


def _write(path: Path, block: mmap.mmap, size: int) -> tuple[float, bool]:
    begin = time.monotonic()
    fd, direct = _open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        for index in _blocks(size):
            _stamp(block, index)
            view = memoryview(block)
            while view:
                view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    return time.monotonic() - begin, direct


def _read(path: Path, block: mmap.mmap, size: int, direct: bool) -> tuple[float, int]:
    if not direct:
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    begin = time.monotonic()
    fd, _ = _open(path, os.O_RDONLY) if direct else (os.open(path, os.O_RDONLY), False)
    wrong = 0
    spent = 0.0
    back = mmap.mmap(-1, _BLOCK)
    try:
        for index in _blocks(size):
            _fill(fd, back)
            mark = time.monotonic()
            _stamp(block, index)
            wrong += back[:] != block[:]
            spent += time.monotonic() - mark  # time to compare does not count
    finally:
        os.close(fd)
    return max(time.monotonic() - begin - spent, 1e-6), wrong


def _fill(fd: int, back: mmap.mmap) -> None:
    view = memoryview(back)
    while view:
        got = os.readv(fd, [view])
        if not got:
            raise OSError(0, "the file is shorter than written")
        view = view[got:]


def _blocks(size: int) -> Iterator[int]:
    yield from range(max(1, size // _BLOCK))


def _stamp(block: mmap.mmap, index: int) -> None:
    """Make every block different, so that a block in the wrong place is detected."""
    block[:8] = index.to_bytes(8, "big")


if __name__ == "__main__":
    sys.exit(main())

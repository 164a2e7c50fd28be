"""The host, from /proc, statvfs and the kernel's clock: values that may change from pass to pass."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from slurm_hooks.facts import DiskFacts, HostFacts
from slurm_hooks.node import kernel_files

_TIME_ERROR = 5
_STA_UNSYNC = 0x40
"""adjtimex(2): the kernel's clock is not synchronised."""


def open_probe(
    procfs: Path, disks: Sequence[str], sysfs: Path
) -> Callable[[object], Iterator[HostFacts]]:
    """Answers with ``read``."""

    def serve(_request: object) -> Iterator[HostFacts]:
        yield read(procfs, disks, sysfs)

    return serve


def read(procfs: Path, disks: Sequence[str], sysfs: Path = Path("/sys")) -> HostFacts:
    """All values. A value is None if its file is missing."""
    memory = _memory(kernel_files.text(f"{procfs}/meminfo"))
    synced, error_s = kernel_clock()
    return HostFacts(
        memory_total_bytes=memory.get("MemTotal"),
        memory_available_bytes=memory.get("MemAvailable"),
        load=_load(kernel_files.text(f"{procfs}/loadavg")),
        cpus=os.cpu_count(),
        disks=tuple(disk for path in disks if (disk := _disk(path)) is not None),
        clock_synced=synced,
        clock_error_s=error_s,
        mounted=_mounted(procfs, sysfs),
    )


def _memory(text: str) -> dict[str, int]:
    """Lines ``Name:   123 kB`` in bytes (proc(5), meminfo)."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if (
            len(words) == 3
            and words[2] == "kB"
            and (value := kernel_files.whole(words[1])) is not None
        ):
            found[words[0].rstrip(":")] = value * 1024
    return found


def _load(text: str) -> tuple[float, float, float] | None:
    words = text.split()[:3]
    try:
        one, five, fifteen = (float(word) for word in words)
    except ValueError:
        return None
    return one, five, fifteen


def _disk(path: str) -> DiskFacts | None:
    """None if there is no such folder."""
    try:
        space = os.statvfs(path)
    except OSError:
        return None
    return DiskFacts(
        path=path,
        free_bytes=space.f_bavail * space.f_frsize,
        total_bytes=space.f_blocks * space.f_frsize,
        free_inodes=space.f_favail,
        inodes=space.f_files,
        read_only=bool(space.f_flag & os.ST_RDONLY),
    )


def _mounted(procfs: Path, sysfs: Path) -> frozenset[str] | None:
    """Kernel names of the block devices that are mounted in this mount namespace (proc(5),
    mountinfo). Only names are read; mounts and devices are not accessed. The source of a FUSE mount is
    not one: any user chooses it (fusermount3 -o fsname=).
    """
    try:
        text = Path(procfs, "self/mountinfo").read_text(errors="replace")
    except OSError:
        return None
    found = set()
    for line in text.split("\n"):
        words = line.split(" ")
        if len(words) < 10 or "-" not in words[6:-2]:
            continue
        kind, source = words[words.index("-", 6) + 1 :][:2]
        if source.startswith("/dev/") and kind.partition(".")[0] != "fuse":
            found.add(Path(os.path.realpath(source)).name)
        link = f"{sysfs}/dev/block/{words[2]}"
        if os.path.islink(link):  # noqa: PTH114 - Path costs twice as much
            found.add(Path(os.readlink(link)).name)  # noqa: PTH115
    return frozenset(found)


class _Timex(ctypes.Structure):
    """The start of struct timex (adjtimex(2)); ``rest`` is room for its other fields."""

    _fields_ = [
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 512),
    ]


def kernel_clock() -> tuple[bool | None, float | None]:
    """(synchronised, largest error in seconds); (None, None) if adjtimex fails."""
    timex = _Timex()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    except (OSError, AttributeError):
        return None, None
    if state < 0:
        return None, None
    synced = state != _TIME_ERROR and not timex.status & _STA_UNSYNC
    return synced, timex.maxerror / 1e6

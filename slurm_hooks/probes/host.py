"""The machine itself, from /proc, statvfs and the kernel's clock: what may change from one pass to
the next.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from slurm_hooks.facts import DiskFacts, HostFacts
from slurm_hooks.probes import files

_TIME_ERROR = 5
_STA_UNSYNC = 0x40
"""adjtimex(2): nobody has told the kernel's clock the time for long."""


def open_probe(
    procfs: Path, disks: Sequence[str], sysfs: Path
) -> Callable[[object], Iterator[HostFacts]]:
    """Answers with ``read``."""

    def serve(_request: object) -> Iterator[HostFacts]:
        yield read(procfs, disks, sysfs)

    return serve


def read(procfs: Path, disks: Sequence[str], sysfs: Path = Path("/sys")) -> HostFacts:
    """All of it. A file that is missing leaves its part None."""
    memory = _memory(files.text(f"{procfs}/meminfo"))
    synced, error_s = kernel_clock()
    return HostFacts(
        memory_total_bytes=memory.get("MemTotal"),
        memory_available_bytes=memory.get("MemAvailable"),
        load=_load(files.text(f"{procfs}/loadavg")),
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
        if len(words) == 3 and words[2] == "kB" and (value := files.whole(words[1])) is not None:
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
    """None where there is no such folder."""
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
    """Block devices in this mount namespace (proc(5), mountinfo), by the names that the kernel has for them. Only
    names are read: neither the mounts nor the devices are touched.
    """
    try:
        text = Path(procfs, "self/mountinfo").read_text(errors="replace")
    except OSError:
        return None
    found = set()
    for line in text.splitlines():
        words = line.split(" ")
        if len(words) < 10 or "-" not in words[6:-2]:
            continue
        source = words[words.index("-", 6) + 2]
        if source.startswith("/dev/"):
            found.add(Path(os.path.realpath(source)).name)
        link = f"{sysfs}/dev/block/{words[2]}"
        if os.path.islink(link):  # noqa: PTH114 - a Path for each mount costs twice
            found.add(Path(os.readlink(link)).name)  # noqa: PTH115
    return frozenset(found)


class _Timex(ctypes.Structure):
    """struct timex as far as it is read here (adjtimex(2)); the rest is room for the kernel."""

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
    """(disciplined, largest error in seconds), (None, None) where the kernel would not say."""
    timex = _Timex()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    except (OSError, AttributeError):
        return None, None
    if state < 0:
        return None, None
    synced = state != _TIME_ERROR and not timex.status & _STA_UNSYNC
    return synced, timex.maxerror / 1e6

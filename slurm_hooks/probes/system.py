"""Kernel modules, services, tasks in uninterruptible sleep, and zombies: facts that change slowly.

One scan of /proc finds services, sleeping tasks and zombies. It reads only ``stat`` of every process
(which takes no lock on the process's memory, so it never hangs), ``status`` of processes with a
service's name, and ``wchan`` and ``stack`` of the few tasks in uninterruptible sleep. It never reads
environments or command lines.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from slurm_hooks.facts import DStateTask, SystemFacts
from slurm_hooks.node import kernel_files
from slurm_hooks.probes import services

MAX_TASKS = 6000
"""A scan reads ``stat`` of at most this many tasks, 15 µs each; the next scan continues there."""

_MAX_THREADS = 256
"""Per process. Threads are read because the one that hangs is seldom the main thread."""

_MAX_SLEEPERS = 32
"""``wchan`` and ``stack`` are read for at most this many tasks in state D."""


@dataclass(slots=True)
class _Scan:
    """Result of one scan of /proc."""

    sleepers: list[tuple[int, int, str, int]] = field(default_factory=list)
    zombies: list[tuple[int, int]] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    looked: int = 0
    cut_at: int = 0


def open_probe(procfs: Path, sysfs: Path) -> Callable[[object], Iterator[SystemFacts]]:
    """Answers with the facts."""
    cursor = 0

    def serve(_request: object) -> Iterator[SystemFacts]:
        nonlocal cursor
        scan = walk(procfs, cursor)
        cursor = scan.cut_at
        seen = services.Seen(names=scan.names, whole=not cursor)
        yield SystemFacts(
            modules=modules(sysfs),
            services=services.read(procfs, sysfs, seen),
            d_state_tasks=tuple(_sleeper(procfs, *at) for at in scan.sleepers[:_MAX_SLEEPERS]),
            zombies=tuple(scan.zombies),
            seen_tasks=scan.looked,
            cut=bool(scan.cut_at),
            uptime_s=_uptime(procfs),
        )

    return serve


def modules(sysfs: Path) -> frozenset[str] | None:
    """Loaded modules (Documentation/ABI/stable/sysfs-module); None if sysfs is not visible. A module
    that is being unloaded does not count.
    """
    top = f"{sysfs}/module"
    if not Path(top).is_dir():
        return None
    return frozenset(
        name
        for name in kernel_files.names(top)
        if kernel_files.text(f"{top}/{name}/initstate") in ("", "live")  # "": built in
    )


def walk(procfs: Path, start: int = 0, most: int = MAX_TASKS) -> _Scan:
    """Read every process from pid ``start`` on, then those before it, with all their threads."""
    scan = _Scan()
    pids = sorted(
        pid for name in kernel_files.names(str(procfs)) if (pid := kernel_files.whole(name))
    )
    later = [pid for pid in pids if pid >= start]
    for pid in itertools.chain(later, pids[: len(pids) - len(later)]):
        if scan.looked >= most:
            scan.cut_at = pid
            return scan
        threads = _read_task(scan, f"{procfs}/{pid}", pid, pid)
        if threads > 1:
            tids = kernel_files.names(f"{procfs}/{pid}/task")[:_MAX_THREADS]
            for tid in tids[: most - scan.looked]:
                if tid != str(pid) and (number := kernel_files.whole(tid)):
                    _read_task(scan, f"{procfs}/{pid}/task/{tid}", pid, number)
    return scan


def _read_task(scan: _Scan, folder: str, pid: int, tid: int) -> int:
    """Add one task to the scan. Returns how many threads its process has (proc(5), stat)."""
    scan.looked += 1
    head, _, rest = kernel_files.text(f"{folder}/stat").rpartition(")")
    name, words = head.partition("(")[2], rest.split()
    if len(words) < 20:
        return 0  # it has exited
    start, threads = kernel_files.whole(words[19]) or 0, kernel_files.whole(words[17]) or 1
    if words[0] == "D":
        scan.sleepers.append((pid, tid, name, start))
    elif words[0] == "Z" and pid == tid:
        scan.zombies.append((pid, start))
    known = name not in services.PROGRAMS or services.is_genuine(folder, name)
    if pid == tid and words[0] not in "ZX" and known:
        scan.names.setdefault(name, pid)
    return threads


def _sleeper(procfs: Path, pid: int, tid: int, name: str, start: int) -> DStateTask:
    folder = f"{procfs}/{pid}/task/{tid}"
    wchan = kernel_files.text(f"{folder}/wchan")
    stack = (line.partition("] ")[2] for line in kernel_files.text(f"{folder}/stack").splitlines())
    return DStateTask(
        pid=pid,
        tid=tid,
        start=start,
        name=name,
        wchan="" if wchan == "0" else wchan,
        stack=tuple(frame for frame in stack if frame)[:12],
        switches=_switches(kernel_files.text(f"{folder}/status")),
    )


def _switches(status: str) -> int | None:
    """Context switches so far. If two scans see the same number, the task did not run in between."""
    total = 0
    for line in status.split("\n"):
        name, _, value = line.partition(":")
        if name in ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"):
            count = kernel_files.whole(value.strip())
            if count is None:
                return None
            total += count
    return total or None


def _uptime(procfs: Path) -> float:
    try:
        return float(kernel_files.text(f"{procfs}/uptime").split()[0])
    except (IndexError, ValueError):
        return 0.0

"""Control groups of one machine: a group in each hierarchy, which the machine sees as the root.

Only version 1 (and hybrid) hierarchies: containers of a machine with version 2 alone are not tried yet.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

CGROUP_FILE = "cgroups"
"""In a machine's folder: its control groups, ``CONTROLLERS PATH`` a line, as the host names them."""

NEEDED = frozenset({"cpu", "cpuacct", "cpuset", "memory", "pids"})
"""What kubelet measures and limits."""

_CLONE_NEWCGROUP = 0x02000000  # linux/sched.h
_SCRATCH = Path("/run/cgroups")


def hierarchies(text: str) -> list[tuple[str, str]]:
    """(controllers, path) of every version 1 hierarchy in the text of /proc/PID/cgroup."""
    rows = (line.split(":", 2) for line in text.splitlines())
    return [(row[1], row[2]) for row in rows if row[1]]


def missing(text: str) -> list[str]:
    """Controllers of ``NEEDED`` without a version 1 hierarchy in the text of /proc/PID/cgroup."""
    found = {name for controllers, _ in hierarchies(text) for name in controllers.split(",")}
    return sorted(NEEDED - found)


def enter(own: Path, name: str) -> list[str]:
    """Enters a new group ``name`` below the present one in each hierarchy; the namespace's root from now on.

    Writes ``CGROUP_FILE`` into ``own`` and returns the hierarchies' controllers. Raises ``OSError``.
    """
    found = hierarchies(Path("/proc/self/cgroup").read_text())
    if not found:
        raise OSError("this kernel has no version 1 hierarchy of control groups")
    lines = []
    for controllers, path in found:
        mounted = _SCRATCH / controllers.removeprefix("name=")
        mount(mounted, controllers)
        group = mounted / path.lstrip("/") / name
        group.mkdir(exist_ok=True)
        if controllers == "cpuset":  # empty in a new group, and then no process can enter it
            for setting in ("cpuset.cpus", "cpuset.mems"):
                (group / setting).write_text((group.parent / setting).read_text())
        (group / "cgroup.procs").write_text(str(os.getpid()))
        lines.append(f"{controllers} {path.rstrip('/')}/{name}\n")
        subprocess.run(["umount", str(mounted)], check=True)
    (own / CGROUP_FILE).write_text("".join(lines))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWCGROUP):
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWCGROUP)")
    return [controllers for controllers, _ in found]


def mount(target: Path, controllers: str) -> None:
    """Mounts one hierarchy, as the cgroup namespace sees it."""
    target.mkdir(parents=True, exist_ok=True)
    options = f"none,{controllers}" if controllers.startswith("name=") else controllers
    subprocess.run(["mount", "-t", "cgroup", "-o", options, "cgroup", str(target)], check=True)

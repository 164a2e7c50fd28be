"""Services of the machine, told without asking any of them: processes, systemd's cgroups, pid files.

A service counts as stopped only where it could have been seen: its unit is installed here or its
pid file names a process that is gone. In a container without the host's processes nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_hooks.facts import ServiceFacts
from slurm_hooks.probes import files

_COMM = 15
"""The kernel cuts a process's name after so many bytes (proc(5), comm)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Service:
    """``unit``: systemd's; ``process``: the name of its program."""

    name: str
    unit: str
    process: str
    pid_file: str = ""


SERVICES = (
    _Service(
        name="fabricmanager",
        unit="nvidia-fabricmanager.service",
        process="nv-fabricmanager",
        pid_file="/run/nvidia-fabricmanager/nv-fabricmanager.pid",
    ),
    _Service(
        name="persistenced",
        unit="nvidia-persistenced.service",
        process="nvidia-persistenced",
        pid_file="/run/nvidia-persistenced/nvidia-persistenced.pid",
    ),
    _Service(name="dcgm", unit="nvidia-dcgm.service", process="nv-hostengine"),
)
"""Those that an HGX H100 node lives on. Units and paths as in NVIDIA's packages."""

_UNIT_FOLDERS = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a scan of /proc found: program names of running processes → pid. ``whole``: of all."""

    names: Mapping[str, int]
    whole: bool = True


def read(procfs: Path, sysfs: Path, seen: Seen, *, root: str = "") -> tuple[ServiceFacts, ...]:
    """Every service. ``root`` stands before the paths of pid files and units (for tests)."""
    found = []
    for service in SERVICES:
        running, how = _look(service, procfs, sysfs, seen, root)
        found.append(ServiceFacts(name=service.name, running=running, how=how))
    return tuple(found)


def _look(
    service: _Service, procfs: Path, sysfs: Path, seen: Seen, root: str
) -> tuple[bool | None, str]:
    pid = seen.names.get(service.process[:_COMM])
    if pid is not None:
        return True, f"process {pid}"
    if Path(f"{sysfs}/fs/cgroup/system.slice/{service.unit}/cgroup.procs").exists():
        return True, f"cgroup of {service.unit}"
    noted = files.number(root + service.pid_file) if service.pid_file else None
    if noted is not None:
        if Path(f"{procfs}/{noted}").exists():
            return True, f"pid file, process {noted}"
        return False, f"its pid file names process {noted}, which is gone"
    if seen.whole and _sees_the_host(procfs) and _installed(service.unit, root):
        return False, f"{service.unit} is installed and has no process"
    return None, "cannot be seen from here"


def _sees_the_host(procfs: Path) -> bool:
    """Whether this is the machine's own PID namespace: kernel threads are seen only there."""
    return files.text(f"{procfs}/2/comm") == "kthreadd"


def _installed(unit: str, root: str) -> bool:
    return any(Path(f"{root}{folder}/{unit}").exists() for folder in _UNIT_FOLDERS)

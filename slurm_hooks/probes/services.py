"""Services of the machine, told without asking any of them: processes, systemd's cgroups, pid files.

A service counts as stopped only where it could have been seen: its unit is installed here or its
pid file names a process that is gone. In a container without the host's processes nothing is known.

Any user can give his process any name, also one of root's by running a set-user-ID program through a link. A
process counts only where all of its four user ids are a system account's (some of these services leave
root) and the file that it runs has the service's name too.
"""

from __future__ import annotations

import os
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

PROGRAMS: Mapping[str, str] = {service.process[:_COMM]: service.process for service in SERVICES}
"""Name of a process → name of the file that it runs."""

_FIRST_USER = 1000
"""Users' numbers begin here (login.defs(5), UID_MIN)."""

_UNIT_FOLDERS = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a scan of /proc found: program names of running processes → pid; of services only those
    that ``is_genuine``. ``whole``: of all."""

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
        if is_genuine(f"{procfs}/{noted}", service.process[:_COMM]):
            return True, f"pid file, process {noted}"
        return False, f"its pid file names process {noted}, which is gone"
    if seen.whole and _sees_the_host(procfs) and _installed(service.unit, root):
        return False, f"{service.unit} is installed and has no process"
    return None, "cannot be seen from here"


def is_genuine(folder: str, name: str) -> bool:
    """Whether the process whose folder in /proc this is may be the service that its name says."""
    for line in files.text(f"{folder}/status").splitlines():
        if line.startswith("Uid:"):
            ids = [files.whole(word) for word in line.split()[1:]]
            if len(ids) != 4 or any(uid is None or uid >= _FIRST_USER for uid in ids):
                return False
            break
    else:
        return False
    try:
        program = os.readlink(f"{folder}/exe")  # noqa: PTH115 - as cheap as it can be
    except OSError:
        return True  # who may not trace other processes is not told (proc(5)); the user ids decide
    return os.path.basename(program.removesuffix(" (deleted)")) == PROGRAMS.get(name)  # noqa: PTH119


def _sees_the_host(procfs: Path) -> bool:
    """Whether this is the machine's own PID namespace: kernel threads are seen only there."""
    return files.text(f"{procfs}/2/comm") == "kthreadd"


def _installed(unit: str, root: str) -> bool:
    return any(Path(f"{root}{folder}/{unit}").exists() for folder in _UNIT_FOLDERS)

"""Which services run, from processes, systemd's cgroups and pid files. No service is contacted.

A service counts as stopped only if it would be visible: its unit is installed here, or its pid file
names a process that does not exist. In a container without the host's processes nothing is known.

Users can give a process any name, even a process of root, by running a set-user-ID program through
a link. So a process counts only if all of its four user ids belong to system accounts (some of
these services drop root) and its executable has the service's name too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_hooks.facts import ServiceFacts
from slurm_hooks.node import kernel_files

_COMM = 15
"""The kernel truncates a process name to this many bytes (proc(5), comm)."""


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
"""The services that an HGX H100 node requires. Units and paths as in NVIDIA's packages."""

PROGRAMS: Mapping[str, str] = {service.process[:_COMM]: service.process for service in SERVICES}
"""Process name → name of its executable."""

_FIRST_USER = 1000
"""First user id of ordinary users (login.defs(5), UID_MIN)."""

_UNIT_FOLDERS = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Result of a scan of /proc: process name → pid; for the services above, only processes that are
    genuine. ``whole``: the scan read all processes.
    """

    names: Mapping[str, int]
    whole: bool = True


def read(procfs: Path, sysfs: Path, seen: Seen, *, root: str = "") -> tuple[ServiceFacts, ...]:
    """Every service. ``root``: prefix of the paths of pid files and units, for tests."""
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
    recorded = kernel_files.number(root + service.pid_file) if service.pid_file else None
    if recorded is not None:
        if is_genuine(f"{procfs}/{recorded}", service.process[:_COMM]):
            return True, f"pid file, process {recorded}"
        return False, f"its pid file names process {recorded}, which does not exist"
    if seen.whole and _sees_the_host(procfs) and _installed(service.unit, root):
        return False, f"{service.unit} is installed but has no process"
    return None, "not visible from here"


def is_genuine(folder: str, name: str) -> bool:
    """Whether the process (its folder in /proc) can be the service that its name claims."""
    # The name is in this file too. The kernel escapes line feeds in it, and no other line break (splitlines).
    for line in kernel_files.text(f"{folder}/status").split("\n"):
        if line.startswith("Uid:"):
            ids = [kernel_files.whole(word) for word in line.split()[1:]]
            if len(ids) != 4 or any(uid is None or uid >= _FIRST_USER for uid in ids):
                return False
            break
    else:
        return False
    try:
        program = os.readlink(f"{folder}/exe")  # noqa: PTH115 - Path costs twice as much
    except OSError:
        return True  # not allowed to trace the process (proc(5)): the user ids decide
    return os.path.basename(program.removesuffix(" (deleted)")) == PROGRAMS.get(name)  # noqa: PTH119


def _sees_the_host(procfs: Path) -> bool:
    """Whether this is the host's PID namespace: kernel threads are visible only there."""
    return kernel_files.text(f"{procfs}/2/comm") == "kthreadd"


def _installed(unit: str, root: str) -> bool:
    return any(Path(f"{root}{folder}/{unit}").exists() for folder in _UNIT_FOLDERS)

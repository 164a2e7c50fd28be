"""Hardware of this node and the result of its checks, for the active check ``host``. Prints one JSON
object.

The results of the checks are the output of ``holdfast check --json``, so both are always the same.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.adapters.command import complete
from holdfast.config.schema import load_cluster
from holdfast.errors import CommandError
from holdfast.own_program import own_program
from slurm_hooks.node import machine

_PROBES_S = 90.0
_NVIDIA = "0x10de"
_CLASSES = {"0x0302": "gpu", "0x0300": "gpu", "0x0680": "switch"}
"""PCI classes: 3D controller, VGA controller, bridge (NVSwitch)."""


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--config", type=Path, required=True)
    args = parser.parse_args()
    paths = load_cluster(args.config).paths
    report = {
        "hardware": hardware(paths.procfs),
        "pci": list(pci(paths.sysfs)),
        "modules": modules(paths.procfs),
        "interfaces": list(interfaces(paths.sysfs)),
        "checks": probes(args.config),
    }
    sys.stdout.write(json.dumps(report) + "\n")
    return 0


def hardware(procfs: Path) -> dict[str, Any]:
    """CPUs online, memory in bytes, kernel release and boot."""
    memory = 0
    for line in _text(procfs / "meminfo").splitlines():
        if line.startswith("MemTotal:"):
            memory = int(line.split()[1]) * 1024
    models = [
        line.partition(":")[2].strip()
        for line in _text(procfs / "cpuinfo").splitlines()
        if line.startswith("model name")
    ]
    return {
        "cpus": os.sysconf("SC_NPROCESSORS_ONLN"),
        "cpu_model": models[0] if models else "",
        "memory_bytes": memory,
        "kernel": os.uname().release,
        "uptime_s": machine.uptime_s(procfs),
        "boot_id": machine.boot_id(procfs),
    }


def pci(sysfs: Path) -> Iterator[dict[str, str]]:
    """NVIDIA's GPUs and switches, with the speed and width of their links (sysfs-bus-pci)."""
    for device in sorted((sysfs / "bus/pci/devices").glob("*")):
        if _text(device / "vendor") != _NVIDIA:
            continue
        kind = _CLASSES.get(_text(device / "class")[:6])
        if kind:
            names = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
            link = {name: _text(device / name) for name in names}
            yield {"address": device.name, "kind": kind, **link}


def modules(procfs: Path) -> list[str] | None:
    """Names of the loaded kernel modules; None: unknown."""
    text = _text(procfs / "modules")
    return sorted(line.split()[0] for line in text.splitlines() if line) if text else None


def interfaces(sysfs: Path) -> Iterator[dict[str, str]]:
    """Network interfaces of devices (no loopback, bridges or tunnels)."""
    for interface in sorted((sysfs / "class/net").glob("*")):
        if (interface / "device").exists():
            names = ("operstate", "speed", "carrier_changes")
            yield {"name": interface.name, **{name: _text(interface / name) for name in names}}


def probes(config: Path) -> list[dict[str, Any]] | str:
    """The rows of ``holdfast check --json``, or why there are none."""
    argv = own_program("holdfast", "check", "--json", "--config", str(config))
    try:
        done = complete(argv, timeout_s=_PROBES_S)
        rows = json.loads(done.out)
    except CommandError as error:
        return error.problem
    except ValueError:
        return " ".join(done.err.split())[:200] or f"exit status {done.status}"
    return rows if isinstance(rows, list) else "output is no list"


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main())

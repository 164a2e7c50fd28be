"""Describes the machine of the measurement, without its name."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def describe(slurm: str) -> list[str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((ln.partition(":")[2].strip() for ln in lines if ln.startswith("model name")), "?")
    memory_kib = int(Path("/proc/meminfo").read_text().split()[1])
    return [
        f"{os.cpu_count()} cores of {model}, {memory_kib / 2**20:.0f} GiB of memory",
        f"Linux {platform.release()}, Python {platform.python_version()} (the nodes have their own)",
        f"Slurm {slurm} in a sandbox box of 4 nodes, all on this machine, H100s simulated below NVML",
        f"load average at the start: {os.getloadavg()[0]:.1f}",
    ]

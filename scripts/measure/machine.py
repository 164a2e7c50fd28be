"""Describes the machine of the measurement, without its name."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def describe(*setup: str) -> list[str]:
    """``setup``: lines about what runs on it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((ln.partition(":")[2].strip() for ln in lines if ln.startswith("model name")), "?")
    memory_kib = int(Path("/proc/meminfo").read_text().split()[1])
    load = os.getloadavg()[0]
    beside = ": other programs ran beside it" if load >= 1.5 else ""
    return [
        f"{os.cpu_count()} cores of {model}, {memory_kib / 2**20:.0f} GiB of memory",
        f"Linux {platform.release()}, Python {platform.python_version()}",
        *setup,
        f"load average at the start: {load:.1f}{beside}",
    ]

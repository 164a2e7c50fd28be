"""slurmctld on a core of its own, and the processor time of all that asks it.

On a cluster the agents' commands run on the nodes. Here they would take the processor from slurmctld, and the wall
time would be that of a thousand nodes in one machine.
"""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

from measure.bridge.process import cpu_s


def separate(slurmctld: int) -> None:
    """One core for slurmctld, the others for this process and those that it starts from now on. Nothing where
    there is only one."""
    first, *others = sorted(os.sched_getaffinity(0))
    if not others:
        return
    for thread in Path(f"/proc/{slurmctld}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {first})
    os.sched_setaffinity(0, others)


def left() -> str:
    """For a text: what this process may use."""
    count = len(os.sched_getaffinity(0))
    return "one core" if count == 1 else f"{count} cores"


def clients_cpu_s() -> float:
    """Of this process, its pools, and their commands that have ended."""
    pids = [os.getpid(), *(child.pid for child in multiprocessing.active_children() if child.pid)]
    return sum(cpu_s(pid, children=True) for pid in pids)

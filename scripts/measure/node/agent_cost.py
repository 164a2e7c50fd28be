"""CPU and memory of the agent at the default interval with every check on, compared with every check off."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from testbed.box import Box

from measure.figures import Figure, Series
from measure.node import reconfigure

OVER_S = 130.0
"""Two rounds of the probes that run once a minute."""
IDLE_S = 30.0
_TICK_S = 0.01  # USER_HZ of every Linux that Slurm runs on


def catalogue(box: Box, say: Callable[[str], None]) -> Figure:
    """Share of one core that every node's agent, its workers and its commands use."""
    say(f"catalogue: {OVER_S:.0f} s of four agents at their default interval, every check on")
    with reconfigure.configured(box, _by_default):
        time.sleep(15.0)  # exclude the start-up
        ours = _shares(box, OVER_S)
        most_mib = max(memory_mib(box, node.name) for node in box.nodes)
        checks = sum(
            ": {mode: drain" in line
            for line in box.path(reconfigure.CONFIG).read_text().splitlines()
        )
    say(f"catalogue: {IDLE_S:.0f} s of four agents with every check off")
    with reconfigure.configured(box, lambda text: reconfigure.modes(_by_default(text), "off")):
        time.sleep(5.0)
        floor = _shares(box, IDLE_S)
    return Figure(
        name="catalogue",
        ours=Series(
            what=f"agent with {checks} checks on, a pass each 10 s", seconds=ours, unit="core"
        ),
        rival=Series(what="agent with every check off", seconds=floor, unit="core"),
        target="at most 1 % of a core, 60 MiB",
        met=max(ours) <= 0.01 and most_mib <= 60,
        notes=(
            f"each of {len(ours)} nodes over {OVER_S:.0f} s, user and system time of the agent, of its workers and of "
            f"all processes that they started; at most {most_mib:.0f} MiB (proportional set size)",
        ),
    )


def _by_default(text: str) -> str:
    """The configuration with an empty section `agent`."""
    return re.sub(r"\nagent: \{[^}]*\}", "\nagent: {}", text)


def _shares(box: Box, over_s: float) -> tuple[float, ...]:
    before = {node.name: cpu_s(box, node.name) for node in box.nodes}
    begin = time.monotonic()
    time.sleep(over_s)
    took = time.monotonic() - begin
    return tuple((cpu_s(box, name) - spent) / took for name, spent in before.items())


def cpu_s(box: Box, node: str) -> float:
    """CPU seconds of the node's agent and its workers so far, including exited ones."""
    return sum(map(cpu_ticks_s, _pids(box, node)))


def cpu_ticks_s(pid: int) -> float:
    """CPU seconds of a process and of its children that it has waited for; 0 if it has exited."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(fields[at]) for at in (11, 12, 13, 14)) * _TICK_S


def memory_mib(box: Box, node: str) -> float:
    """Proportional set size of the node's agent and its workers."""
    return sum(map(pss_mib, _pids(box, node)))


def pss_mib(pid: int) -> float:
    """Proportional set size of a process; 0 if it has exited."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def _pids(box: Box, node: str) -> list[int]:
    found = [
        pid for pid, words in box.pids(node) if any("slurm_hooks.agent" in word for word in words)
    ]
    if not found:
        raise RuntimeError(f"no agent is running on {node}")
    return found

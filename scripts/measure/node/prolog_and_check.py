"""Benchmarks of one node: the prolog, a whole check, a hung probe."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testbed.box import Box

from measure.figures import Figure, Series
from measure.node import agent_cost

INSIDE = Path(__file__).resolve().parent / "inside"
NODE = "worker-0"
BENCH = "bench"


def prolog(box: Box, say: Callable[[str], None]) -> Figure:
    say("prolog: 300 prologs and 300 empty shells in turn")
    times = _inside(box, "prolog", 300)
    ours = Series(what="prolog, whole process, healthy verdict", seconds=tuple(times["prolog"]))
    floor = Series(what="sh -c :", seconds=tuple(times["floor"]))
    return Figure(
        name="prolog",
        ours=ours,
        rival=floor,
        target="at most 3 times the floor",
        met=ours.median <= 3 * floor.median,
    )


def check(box: Box, say: Callable[[str], None]) -> Figure:
    say("check: 100 whole checks of 8 GPUs")
    times = _inside(box, "check", 100)
    ours = Series(what="whole node check inside the agent, 8 GPUs", seconds=tuple(times["check"]))
    floor = Series(what="NVML's own calls for it", seconds=tuple(times["nvml"]))
    memory_mib, cpu = _agent(box)
    return Figure(
        name="check",
        ours=ours,
        rival=floor,
        target="at most 10 ms beyond the driver's time; agent at most 60 MiB, 1 % of a core",
        met=ours.median - floor.median <= 0.010
        and memory_mib <= 60
        and cpu * _PASSES_FASTER <= 0.01,
        notes=(
            f"the agent and its workers hold {memory_mib:.0f} MiB (proportional set size) and take "
            f"{cpu:.2%} of a core at a pass each second: {cpu * _PASSES_FASTER:.2%} at the default of "
            "one each 10 s",
        ),
    )


_PASSES_FASTER = 0.1
"""A box's agent runs a pass each second, by default each 10 s."""


def _agent(box: Box, over_s: float = 20.0) -> tuple[float, float]:
    """(MiB of proportional set size, share of one core) of a node's agent with its workers."""
    before, begin = agent_cost.cpu_s(box, NODE), time.monotonic()
    time.sleep(over_s)
    spent = agent_cost.cpu_s(box, NODE) - before
    return agent_cost.memory_mib(box, NODE), max(0.0, spent) / (time.monotonic() - begin)


def unkillable(box: Box, say: Callable[[str], None]) -> Figure:
    say("unkillable: NVML calls that no signal ends, 10 passes")
    box.fault(NODE, "nvml-unkillable")
    try:
        times: dict[str, Any] = _inside(box, "unkillable", 10)
        hooks = _inside(box, "prolog", 50)["prolog"]
    finally:
        box.heal(NODE)
    deadline = float(times["deadline"])
    ours = Series(what="pass over all probes, NVML unkillable", seconds=tuple(times["pass"]))
    return Figure(
        name="unkillable",
        ours=ours,
        rival=Series(what="the probes' deadline", seconds=(deadline,)),
        target="at most the deadline + 0.1 s",
        met=ours.quantile(0.99) <= deadline + 0.1,
        notes=(
            f"the prolog meanwhile: median {sorted(hooks)[25] * 1000:.1f} ms, maximum {max(hooks) * 1000:.1f} ms",
        ),
    )


def _inside(box: Box, program: str, rounds: int) -> dict[str, list[float]]:
    folder = box.path(f"/mnt/training/{BENCH}")
    folder.mkdir(exist_ok=True)
    (folder / f"{program}.py").write_text((INSIDE / f"{program}.py").read_text())
    argv = ["/opt/holdfast/bin/python", "-I", f"/mnt/training/{BENCH}/{program}.py", str(rounds)]
    found: dict[str, list[float]] = json.loads(box.node(NODE).run(argv, timeout_s=120).stdout)
    return found

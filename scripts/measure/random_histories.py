"""100,000 random histories of faults, manual changes, reboots and killed agents: none may break a rule."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

from testbed.box import Box

from measure.figures import Figure, Series

HISTORIES, OF_A_SEED = 100_000, 500


def interleavings(_box: Box, say: Callable[[str], None]) -> Figure:
    """The agent's real Slurm step in a fake cluster with known faults (tests/unit/property/fake_node.py)."""
    seeds = range(HISTORIES // OF_A_SEED)
    done, steps, wrong, took = 0, 0, [], []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for count, problem, seconds in pool.map(_run, seeds):
            done, steps = done + OF_A_SEED, steps + count
            took.append(seconds / OF_A_SEED)
            wrong += [problem] if problem else []
            if done % 20_000 == 0:
                say(f"interleavings: {done} done, {len(wrong)} with a violation")
    return Figure(
        name="interleavings",
        ours=Series(
            what=f"one of {done:,} random histories, the agent's own Slurm step",
            seconds=tuple(took),
        ),
        rival=Series(what="the same fake cluster without an agent's step", seconds=(_idle_s(),)),
        target="no wrong drain and no undrain without evidence in 100,000",
        met=not wrong,
        notes=(f"{steps:,} steps; {len(wrong)} seeds with a violation", *wrong[:3]),
    )


def _run(seed: int) -> tuple[int, str, float]:
    """(steps, the first violation or nothing, seconds)."""
    from tests.unit.property import test_node_interleavings as scenarios  # noqa: PLC0415 - in the worker
    from tests.unit.property.fake_node import Violation  # noqa: PLC0415

    begin = time.perf_counter()
    try:
        return scenarios.run_scenarios(seed, OF_A_SEED), "", time.perf_counter() - begin
    except Violation as error:
        return 0, f"seed {seed}: {error}", time.perf_counter() - begin


def _idle_s() -> float:
    """Seconds of one story in which nobody acts on what happens."""
    from tests.unit.property import test_node_interleavings as scenarios  # noqa: PLC0415
    from tests.unit.property.fake_node import FakeNode  # noqa: PLC0415

    members, step = FakeNode, FakeNode.step
    setattr(members, "step", lambda _self: None)  # noqa: B010 - a method is no attribute to assign
    begin = time.perf_counter()
    try:
        scenarios.run_scenarios(0, OF_A_SEED)
    finally:
        setattr(members, "step", step)  # noqa: B010
    return (time.perf_counter() - begin) / OF_A_SEED

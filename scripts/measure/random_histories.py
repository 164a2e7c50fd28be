"""100,000 random histories each of what may happen to a node, to Nodes in Kubernetes and to a job: none may break a
rule.
"""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import NamedTuple

from testbed.box import Box

from measure.figures import Figure, Series

HISTORIES, OF_A_SEED = 100_000, 500

Say = Callable[[str], None]


class _Batch(NamedTuple):
    """The histories of one seed. ``problem``: the first violation; empty: none."""

    steps: int
    problem: str
    seconds: float


def interleavings(_box: Box, say: Say) -> Figure:
    """The agent's real Slurm step in a fake cluster with known faults (tests/unit/property/fake_node.py)."""
    return _figure(
        "interleavings",
        _run,
        say,
        "the agent's own Slurm step",
        Series(what="the same fake cluster without an agent's step", seconds=(_idle_s(),)),
        "no wrong drain and no undrain without evidence in 100,000",
    )


def bridge_interleavings(_box: Box, say: Say) -> Figure:
    """Two of the bridge's planners and writers in a fake cluster (tests/unit/k8s_bridge/strangers.py)."""
    return _figure(
        "bridge-interleavings",
        _run_bridges,
        say,
        "the bridge's planner and writer, twice, beside persons, slurm-operator and kills",
        Series(what="the same fake cluster without a bridge", seconds=(_no_bridges_s(),)),
        "no decision of others undone, and a fixed point after each of 100,000",
    )


def two_writers(_box: Box, say: Say) -> Figure:
    """The launcher's and the agent's fence on a cluster with cuts (tests/unit/property/cut_off_job.py)."""
    begin = time.perf_counter()
    without = _unfenced()
    rival_s = (time.perf_counter() - begin) / OF_A_SEED
    figure = _figure(
        "two-writers",
        _run_cut_off,
        say,
        "a job with cut networks, power losses, failed tasks and a slurmctld that restarts and forgets",
        Series(what="the same without the fence", seconds=(rival_s,)),
        "no old attempt can write after a newer one has started, in 100,000",
    )
    note = f"without the fence two attempts could write in {without} of {OF_A_SEED} histories"
    return replace(figure, notes=(*figure.notes, note))


def _figure(
    name: str, run: Callable[[int], _Batch], say: Say, what: str, rival: Series, target: str
) -> Figure:
    seeds = range(HISTORIES // OF_A_SEED)
    done, steps, wrong, took = 0, 0, [], []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for batch in pool.map(run, seeds):
            done, steps = done + OF_A_SEED, steps + batch.steps
            took.append(batch.seconds / OF_A_SEED)
            wrong += [batch.problem] if batch.problem else []
            if done % 20_000 == 0:
                say(f"{name}: {done} done, {len(wrong)} with a violation")
    return Figure(
        name=name,
        ours=Series(what=f"one of {done:,} random histories, {what}", seconds=tuple(took)),
        rival=rival,
        target=target,
        met=not wrong,
        notes=(f"{steps:,} steps; {len(wrong)} seeds with a violation", *wrong[:3]),
    )


def _run(seed: int) -> _Batch:
    from tests.unit.property import test_node_interleavings as scenarios  # noqa: PLC0415 - in the worker
    from tests.unit.property.fake_node import Violation  # noqa: PLC0415

    return _batch(seed, scenarios.run_scenarios, Violation)


def _run_bridges(seed: int) -> _Batch:
    from tests.unit.k8s_bridge import strangers  # noqa: PLC0415 - in the worker
    from tests.unit.k8s_bridge.fake_cluster import Violation  # noqa: PLC0415

    with contextlib.redirect_stderr(io.StringIO()):  # the bridges' log
        return _batch(seed, strangers.run_histories, Violation)


def _run_cut_off(seed: int) -> _Batch:
    from tests.unit.property import cut_off_job  # noqa: PLC0415 - in the worker

    return _batch(seed, cut_off_job.run_histories, cut_off_job.Violation)


def _unfenced() -> int:
    from tests.unit.property import cut_off_job  # noqa: PLC0415

    return cut_off_job.overlaps_without(0, OF_A_SEED)


def _batch(seed: int, run: Callable[[int, int], int], violation: type[Exception]) -> _Batch:
    """``run``: the number of steps in so many histories of a seed."""
    begin = time.perf_counter()
    steps, problem = 0, ""
    try:
        steps = run(seed, OF_A_SEED)
    except violation as error:
        problem = f"seed {seed}: {error}"
    return _Batch(steps, problem, time.perf_counter() - begin)


def _no_bridges_s() -> float:
    """Seconds of one history in which no bridge acts."""
    from tests.unit.k8s_bridge import strangers  # noqa: PLC0415

    begin = time.perf_counter()
    strangers.run_histories(0, OF_A_SEED, bridges=False)
    return (time.perf_counter() - begin) / OF_A_SEED


def _idle_s() -> float:
    """Seconds of one history in which nobody acts on what happens."""
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

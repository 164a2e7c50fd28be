"""Time from the fault to the job's next training step: under Holdfast, and on plain Slurm at best."""

from __future__ import annotations

import sys
from collections.abc import Callable

from demonstration import baseline as plain
from demonstration.jobs import Order, install
from demonstration.live import Live
from demonstration.observe import Cluster
from demonstration.scenario import ScenarioRunner
from testbed.box import Box

from measure.figures import Figure, Series

ROUNDS = 5
RANKS, STEPS, FAULT_STEP = 4, 34, 13


class Quiet(Live):
    """Prints nothing: the benchmark has its own output."""

    def say(self, text: str) -> None: ...

    def passing(self, text: str) -> None: ...


def resume(box: Box, say: Callable[[str], None]) -> Figure:
    cluster = Cluster(box)
    install(box)
    say("resume: the job without Holdfast, until Slurm's requeue delay begins")
    order = Order(name="bench-plain", script="train_plain", ranks_per_node=RANKS, steps=STEPS)
    waiting = plain.until_requeued(cluster, Quiet(), order, FAULT_STEP)
    took = []
    for turn in range(ROUNDS):
        order = Order(
            name=f"bench-{turn}", script="train_holdfast", ranks_per_node=RANKS, steps=STEPS
        )
        scenario = ScenarioRunner(cluster, Quiet(), gpu=turn % RANKS).run(order, FAULT_STEP)
        fault, step = scenario.at("fault"), scenario.at("next_step")
        if fault is None or step is None or scenario.problems:
            print(scenario.scene, file=sys.stderr)
            raise RuntimeError(
                f"resume: {'; '.join(scenario.problems) or 'no step after the fault'}"
            )
        took.append(step - fault)
        say(f"resume: {turn + 1} of {ROUNDS}, {took[-1]:.1f} s")
    say("resume: waiting for plain Slurm's requeue delay")
    plain.to_the_end(cluster, Quiet(), waiting)
    ours = Series(
        what=f"GPU lost to the next training step, {2 * RANKS} ranks", seconds=tuple(took)
    )
    rival = Series(
        what="plain Slurm with an administrator who drains and requeues at once",
        seconds=(waiting.next_step_s - waiting.fault_s,),
    )
    return Figure(
        name="resume",
        ours=ours,
        rival=rival,
        target="median at most 10 s",
        met=ours.median <= 10,
        notes=("Slurm's requeue delay at its default in both; plain Slurm restarts at step 0",),
    )

"""Power loss to DOWN in slurmctld, and 100,000 simulated disturbances that may set no live node DOWN."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime
from functools import partial

from demonstration.observe import Cluster, until
from testbed.box import Box

from measure.figures import Figure, Series
from measure.node import reconfigure

ROUNDS, PLAIN_ROUNDS = 24, 2
HEARD_S = 12.0
"""Ten heartbeats after a return, and an answer to a connect."""
DISTURBANCES, OF_A_SEED = 100_000, 500
LOG = "/var/log/slurm/slurmctld.log"
_OURS = r"\[([^\]]+)\] update_node: node {} reason set to: holdfast:NODE_DEATH"
_PLAIN = r"\[([^\]]+)\] (?:error: )?Nodes? {} not responding, setting DOWN"


def node_death(box: Box, say: Callable[[str], None]) -> Figure:
    """``ROUNDS`` power losses, round robin; each node returns before the next one."""
    acting, silent = "agent: {node_death: {mode: act}, ", "agent: {node_death: {mode: off}, "
    names = [node.name for node in box.nodes]
    with reconfigure.configured(box, lambda text: text.replace("agent: {", acting, 1)):
        took = []
        for turn in range(ROUNDS):
            time.sleep(HEARD_S)
            took.append(_one(box, names[turn % len(names)], _OURS))
            say(f"node_death: {turn + 1} of {ROUNDS}, {took[-1]:.2f} s")
    with reconfigure.configured(box, lambda text: text.replace("agent: {", silent, 1)):
        plain = tuple(_one(box, names[turn], _PLAIN) for turn in range(PLAIN_ROUNDS))
    count, found, wrong = _simulated(say)
    ours = Series(what="power loss to DOWN in slurmctld", seconds=tuple(took))
    return Figure(
        name="node_death",
        ours=ours,
        rival=Series(what="plain Slurm with SlurmdTimeout=10 (default: 300)", seconds=plain),
        target="p99 at most 3 s; no live node DOWN in 100,000 disturbances",
        met=ours.quantile(0.99) <= 3 and not wrong,
        notes=(
            f"simulated: {count:,} stalls, freezes, restarts, clock jumps, partitions, packet losses and slurmctld "
            f"freezes in clusters of 3 to 9 nodes: {len(wrong)} live nodes set DOWN; {len(found):,} power losses, "
            f"all found, at most {max(found, default=0):.2f} s",
            *wrong[:3],
        ),
    )


def _one(box: Box, node: str, pattern: str) -> float:
    cluster = Cluster(box)
    begin = time.time()
    box.power_off(node)
    line = re.compile(pattern.format(node))
    down = until(lambda: _at(box, line, begin), f"{node} DOWN", 60, 0.05)
    box.power_on(node)
    until(lambda: not cluster.node(node).states & {"DOWN", "DOWN*"}, f"{node} returned", 60, 0.2)
    return down - begin


def _at(box: Box, line: re.Pattern[str], since_s: float) -> float | None:
    """Epoch seconds of the first such line of slurmctld after ``since_s``."""
    times = (
        datetime.fromisoformat(found[1]).timestamp()
        for found in line.finditer(box.path(LOG).read_text(errors="replace"))
    )
    return next((at for at in times if at >= since_s), None)


def _simulated(say: Callable[[str], None]) -> tuple[int, list[float], list[str]]:
    """Disturbances, seconds to each DOWN, and violations."""
    count, found, wrong = 0, list[float](), []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for done, took, problem in pool.map(
            partial(_run, OF_A_SEED), range(DISTURBANCES // OF_A_SEED)
        ):
            count, found = count + done, found + took
            wrong += [problem] if problem else []
    say(f"node_death: {count:,} disturbances, {len(wrong)} with a violation")
    return count, found, wrong


def _run(disturbances: int, seed: int) -> tuple[int, list[float], str]:
    from tests.unit.property import silent_cluster  # noqa: PLC0415 - in the worker

    try:
        done, took = silent_cluster.run_seed(seed, disturbances)
    except silent_cluster.Violation as error:
        return 0, [], f"seed {seed}: {error}"
    return done, took, ""

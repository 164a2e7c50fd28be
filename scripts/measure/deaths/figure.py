"""The figure of one release: how many of the deaths had the right action, and how soon the job ran again."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from demonstration.observe import Cluster, until
from testbed.box import Box

from measure import machine
from measure.deaths import campaign
from measure.deaths.campaign import Result
from measure.deaths.catalogue import DEATHS
from measure.deaths.death import Death
from measure.deaths.job import install, is_expedited
from measure.figures import Figure, Series
from measure.page import Part

AT_MOST_S = {"24.11": 2.5, "26.05": 1.0}
"""From the decision until the batch script runs again: without and with Slurm's expedited requeue."""


def part(release: str, say: Callable[[str], None], deaths: Sequence[Death] = DEATHS) -> Part:
    """All deaths in a box of 4 nodes of this release. With HOLDFAST_DEATHS_LOGS=DIR the log of each job is
    kept there."""
    about = machine.describe(
        f"Slurm {release} in a sandbox box of 4 nodes, all on this machine, H100s simulated below NVML"
    )
    box = Box.up(f"deaths-{os.getpid()}", nodes=4, slurm=release, owner_pid=os.getpid())
    try:
        cluster = Cluster(box)
        healthy = [(cluster, node.name) for node in box.nodes]
        until(
            lambda: all((each.verdict(name) or {}).get("status") == "ok" for each, name in healthy),
            "a healthy verdict on every node",
            60,
        )
        install(box)
        plain = campaign.plain_requeue(box)
        results = campaign.run(box, deaths, say, _keep_log)
        plain_s = plain()
    finally:
        box.down()
    return Part(
        title=f"Ways for a job to die, Slurm {release}",
        command=f"scripts/bench deaths --slurm {release}",
        about=tuple(about),
        figures=(figure(results, plain_s, release),),
    )


def figure(results: Sequence[Result], plain_s: float, release: str) -> Figure:
    right = [result for result in results if not result.problems]
    numbers = tuple(map(int, release.split(".")))
    can_expedite = any(is_expedited(result.death, numbers) for result in results)
    again, others = list[float](), list[float]()
    for result in results:
        counts = is_expedited(result.death, numbers) or not can_expedite
        (again if counts else others).extend(result.seen.restarting_s if result.seen else ())
    here = [s for result in right if result.seen for s in result.seen.here_s]
    ours = Series(
        what="decision to requeue, to the batch script running again",
        seconds=tuple(again) or (0.0,),
    )
    limit_s = AT_MOST_S[release]
    wrong = [result for result in results if result.problems]
    return Figure(
        name=f"deaths {release}",
        ours=ours,
        rival=Series(what="plain Slurm, from scontrol requeue", seconds=(plain_s,)),
        target=f"right action in all, median at most {limit_s:g} s",
        met=not wrong and bool(again) and ours.median <= limit_s,
        notes=(
            f"the right action in {len(right)} of {len(results)}: the attempts' ends, the job's last state, "
            "what counts against it, its nodes",
            *(
                (
                    f"of {len(others)} jobs without --requeue=expedite: median {median(others):.2f} s",
                )
                if others
                else ()
            ),
            f"restarts on the same nodes: {len(here)}, median {median(here or [0.0]):.2f} s from the decision to "
            "the next step, the wait after an outage (15 s) included",
            *(f"{result.death.name}: {'; '.join(result.problems)}" for result in wrong),
        ),
    )


def _keep_log(result: Result) -> None:
    folder = os.environ.get("HOLDFAST_DEATHS_LOGS")
    if not folder:
        return
    seen = result.seen
    rows = [f"problems: {'; '.join(result.problems)}", result.log]
    rows += [*map(str, seen.events), str(seen.restarting_s), seen.state] if seen else []
    path = Path(folder) / f"{result.death.name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(rows) + "\n")

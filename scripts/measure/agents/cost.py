"""What agents cost slurmctld: 10,000 healthy ones, a storm of 1,000 drains, and 1,000 nodes that stay out.

slurmctld has 10,000 nodes without slurmd. Each figure stands beside the same slurmctld without agents, or
beside bare commands. Needs no box. ``HOLDFAST_BENCH_NODES`` changes the number of nodes.
"""

from __future__ import annotations

import os
import random
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from testbed.paths import cache

from holdfast.config.schema import ClusterConfig, SlurmConfig
from holdfast.policy import budget
from holdfast.slurm.cli import SlurmCli
from holdfast.vocabulary import SlurmName
from measure.agents import cores, fleet
from measure.bridge.many_nodes import ManySlurmNodes, slurm_name
from measure.bridge.process import cpu_s
from measure.figures import Figure, Series, text
from slurm_hooks.agent.node_death.component import TABLE_S
from slurm_hooks.agent.node_death.step import Step
from slurm_hooks.probes import clock
from slurm_hooks.settings.sections import BudgetConfig
from slurm_hooks.settings.settings import Settings

Say = Callable[[str], None]

NODES = int(os.environ.get("HOLDFAST_BENCH_NODES", "10000"))
STORM = min(1000, NODES // 10)
OUT_BEFORE = STORM // 50
"""Nodes that are out before the storm: the default budget, a tenth of all nodes, has no room for as many of
the storm."""
WINDOW_S = 90.0
"""Two of an agent's longest intervals between two steps while a fault stays open."""
REST_S = 20.0
PROCESSES = os.cpu_count() or 1
START_S = 60.0 * STORM / 1000
"""For the first step of each agent, before the storm."""
STORM_S = 900.0
"""The longest time for the storm, and until the agents ask as rarely as they do for good."""
CALM_S = 240.0
"""From the storm's begin until the intervals between an agent's steps are as long as they get."""
LOOK_S = 15.0
FEW_TABLES = STORM // 100
"""Reads of the node table in that time, once each drained node has made its exact count."""
SHARE = 0.02
SETTLED_S = 10.0
"""Of slurmctld's time. All else of a drain is each node's own work, but here 1,000 nodes share this machine."""
_READ = re.compile(r"^\s*(REQUEST_\w+)\s+\(\s*\d+\)\s+count:(\d+)", re.MULTILINE)


class Cost(NamedTuple):
    """Of slurmctld, in a window: its processor time, and the requests that it received. ``clients_s``: the
    processor time of all commands, and of the agents' own code."""

    cpu_s: float
    wall_s: float
    requests: dict[str, int]
    clients_s: float

    @property
    def share(self) -> float:
        return self.cpu_s / self.wall_s

    @property
    def said(self) -> str:
        found = sorted(self.requests.items(), key=lambda row: -row[1])
        return ", ".join(f"{count} {name.removeprefix('REQUEST_')}" for name, count in found)


def agents(say: Say) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="hf", dir="/tmp") as name:
        root = cache() / "roots" / "24.11"
        with ManySlurmNodes(root, Path(name) / "slurm", NODES) as slurm:
            cores.separate(slurm.pid)
            found = []
            for figure in _Run(slurm, say).figures():
                found.append(figure)
                say("\n".join(text(figure)))
            return found


class _Run:
    """The measurements in their order."""

    def __init__(self, slurm: ManySlurmNodes, say: Say):
        self._slurm, self._say = slurm, say
        self._cli = SlurmCli(60.0, str(slurm.bin))
        self._idle = 0.0

    def figures(self) -> Iterator[Figure]:
        with self._window() as rest:
            time.sleep(REST_S)
        self._idle = rest.cost.share
        yield self._healthy()
        bare, alone_s = self._bare()
        yield from self._storm(bare, alone_s)

    def _healthy(self) -> Figure:
        """The regular calls of all agents, each at a random moment of its interval."""
        settings = Settings(
            path=Path("/nowhere/holdfast.yaml"),
            cluster=ClusterConfig(slurm=SlurmConfig(bin=str(self._slurm.bin))),
        )
        calls: list[tuple[float, Callable[[], object]]] = []
        for number in range(NODES):
            at_s = random.uniform(0, settings.agent.clock_interval_s)
            calls.append((at_s, lambda: clock.read(self._cli)))
            at_s = random.uniform(0, TABLE_S * random.uniform(0.75, 1))
            step = Step(SlurmName(slurm_name(number)), settings, b"", act=False)
            calls.append((at_s, step.table))
        due = sorted((row for row in calls if row[0] < WINDOW_S), key=lambda row: row[0])
        with self._window() as window, ThreadPoolExecutor(fleet.AT_ONCE) as threads:
            begun = time.monotonic()
            done = []
            for at_s, call in due:
                time.sleep(max(0.0, begun + at_s - time.monotonic()))
                done.append(threads.submit(call))
            for each in done:
                each.result()
            time.sleep(max(0.0, begun + WINDOW_S - time.monotonic()))
        return self._share(f"slurmctld under {NODES} agents, no fault", window.cost)

    def _bare(self) -> tuple[Cost, float]:
        """Of as many drains with the fewest commands that stay within a budget and keep a person's reason:
        read, count, read, drain, count, read. As many at once as the agents of the storm have. The bare
        drains alone take the seconds.
        """
        names = [SlurmName(slurm_name(number)) for number in range(STORM)]

        def drain(name: SlurmName) -> None:
            self._cli.drain([name], f"bare {name}")

        def whole(name: SlurmName) -> None:
            self._cli.node_state(name)
            self._cli.node_changes()
            self._cli.node_state(name)
            drain(name)
            self._cli.node_changes()
            self._cli.node_state(name)

        alone = self._at_once(drain, names).wall_s
        cost = self._at_once(whole, names)
        return cost, alone

    def _at_once(self, act: Callable[[SlurmName], None], names: Sequence[SlurmName]) -> Cost:
        with self._window() as window, ThreadPoolExecutor(fleet.AT_ONCE * PROCESSES) as threads:
            for _ in threads.map(act, names):
                pass
        self._slurm.scontrol("update", f"nodename={','.join(names)}", "state=undrain")
        return window.cost

    def _storm(self, bare: Cost, alone_s: float) -> Iterator[Figure]:
        before = range(STORM, STORM + OUT_BEFORE)
        self._slurm.drain(before, "holdfast:XID79: before the storm")
        allowed = budget.allowed(BudgetConfig(), NODES) - OUT_BEFORE
        with (
            tempfile.TemporaryDirectory(prefix="hf", dir="/dev/shm") as folder,
            ProcessPoolExecutor(PROCESSES) as pool,
        ):
            begin = time.monotonic() + START_S
            until = begin + STORM_S + WINDOW_S + 5
            shares = [
                fleet.Share(
                    names=tuple(SlurmName(slurm_name(i)) for i in range(first, STORM, PROCESSES)),
                    bin=str(self._slurm.bin),
                    folder=folder,
                    begin=begin,
                    burst_s=1.0,
                    until=until,
                )
                for first in range(PROCESSES)
            ]
            running = [pool.submit(fleet.run, share) for share in shares]
            time.sleep(max(0.0, begin - time.monotonic()))
            with self._window() as storm:
                while self._written(storm) < allowed and time.monotonic() < begin + STORM_S:
                    time.sleep(0.5)
            most = self._out()
            self._until_calm(begin)
            with self._window() as later:
                time.sleep(WINDOW_S)
            fleet.stop_file(folder).touch()
            seen = [row for future in running for row in future.result()]
        yield self._settled(seen, storm.cost, (bare, alone_s), (allowed, most))
        yield self._share(f"slurmctld while {STORM} nodes stay out", later.cost)

    def _until_calm(self, begin: float) -> None:
        """Here the exact counts of all agents, which follow their drains within a minute, share a core."""
        time.sleep(max(0.0, begin + CALM_S - time.monotonic()))
        while time.monotonic() < begin + STORM_S:
            with self._window() as look:
                time.sleep(LOOK_S)
            if look.cost.requests.get("REQUEST_NODE_INFO", 0) <= FEW_TABLES:
                return

    def _settled(
        self,
        seen: Sequence[fleet.Seen],
        cost: Cost,
        floor: tuple[Cost, float],
        limits: tuple[int, int],
    ) -> Figure:
        """``floor``: of bare commands. ``limits``: how many may drain, and how many were out once so many had."""
        (bare, alone_s), (allowed, most) = floor, limits
        open_ = [row for row in seen if row.action not in ("drain", "over-budget")]
        drained = sum(row.action == "drain" for row in seen)
        out = self._out()
        failed = sum(row.failed for row in seen)
        for row in [row for row in seen if row.problem][:3]:
            self._say(f"agents: {row.name}: {row.problem}")
        took = tuple(row.settled_at - row.fault_at for row in seen if row.action == "drain")
        held = drained == allowed and out == allowed + OUT_BEFORE and not open_
        return Figure(
            name="agents",
            ours=Series(
                what=f"{STORM} faults within one second: slurmctld's processor time until the last drain",
                seconds=(cost.cpu_s,),
            ),
            rival=Series(what="the fewest bare commands for as many drains", seconds=(bare.cpu_s,)),
            target=f"at most {SETTLED_S:g} s of one core, the budget held",
            met=held and cost.cpu_s <= SETTLED_S,
            notes=(
                f"storm: {drained} of {STORM} drained, {allowed} allowed; {out} out of service in the end, {most} "
                f"after the last drain; {failed} steps failed",
                f"storm: slurmctld used its core for {cost.share:.0%} of {cost.wall_s:.0f} s; the rest of the time it "
                f"waited for the commands of {STORM} nodes, which share {cores.left()} here and needed "
                f"{cost.clients_s:.0f} s of it, {cost.clients_s / max(1, drained) * 1000:.0f} ms for each drain "
                f"(bare commands: {bare.clients_s:.0f} s); on a cluster each node has cores of its own",
                f"storm: so here the drains took {_spread(took)}; the fewest bare commands {bare.wall_s:.1f} s, "
                f"{STORM} bare drains {alone_s:.1f} s",
                f"storm: until then slurmctld received {cost.said}",
            ),
        )

    def _share(self, what: str, cost: Cost) -> Figure:
        ours = max(0.0, cost.share - self._idle)
        return Figure(
            name="agents",
            ours=Series(what=f"{what}: what they add", seconds=(ours,), unit="core"),
            rival=Series(
                what="the same slurmctld without agents", seconds=(self._idle,), unit="core"
            ),
            target=f"at most {SHARE:.0%} of a core",
            met=ours <= SHARE,
            notes=(f"{what}: in {cost.wall_s:.0f} s: {cost.said}",),
        )

    def _written(self, window: _Window) -> int:
        """How many changes of nodes slurmctld has received since the window's begin."""
        return window.so_far().get("REQUEST_UPDATE_NODE", 0)

    def _out(self) -> int:
        return sum(map(budget.is_charged, self._cli.nodes_fast()))

    def _window(self) -> _Window:
        return _Window(self._slurm)


def _spread(seconds: Sequence[float]) -> str:
    found = Series(what="", seconds=tuple(seconds))
    return f"{found.median:.1f} s (p99 {found.quantile(0.99):.1f} s)"


class _Window:
    """``cost``: of slurmctld between begin and end of the block."""

    def __init__(self, slurm: ManySlurmNodes):
        self._slurm = slurm
        self.cost = Cost(0.0, 1.0, {}, 0.0)

    def __enter__(self) -> _Window:
        self._before = self._requests()
        self._cpu_s, self._begun = cpu_s(self._slurm.pid, children=False), time.monotonic()
        self._clients_s = cores.clients_cpu_s()
        return self

    def __exit__(self, *_: object) -> None:
        used = cpu_s(self._slurm.pid, children=False) - self._cpu_s
        took_s = time.monotonic() - self._begun
        self.cost = Cost(used, took_s, self.so_far(), cores.clients_cpu_s() - self._clients_s)

    def so_far(self) -> dict[str, int]:
        """The requests since the begin."""
        after = self._requests()
        return {
            name: count - self._before.get(name, 0)
            for name, count in after.items()
            if count > self._before.get(name, 0)
        }

    def _requests(self) -> dict[str, int]:
        by_type = self._slurm.statistics().partition("statistics by user")[0]
        return {name: int(count) for name, count in _READ.findall(by_type)}

"""The parts of ``cut_off_job``: nodes, tasks, slurmctld's view, and a launcher that runs the real fence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from holdfast.errors import Unavailable
from holdfast.policy.job.fence import Lease
from holdfast.records.job_journal import Event, of_last_job
from holdfast.slurm.client import SlurmClient, SlurmJob, SlurmNode
from holdfast.vocabulary import NodeState
from slurm_hooks.job.environment import JobContext
from slurm_hooks.job.fence.fence import Fence, Superseded
from slurm_hooks.job.fence.newer import Newer, Run
from slurm_hooks.job.journal import Journal

if TYPE_CHECKING:
    from tests.unit.property.cut_off_job import World

EPOCH = 1_800_000_000
JOB = 7
_STEP_S = 0.5


_FIRST = Run(0, float(EPOCH))


@dataclass(slots=True)
class Node:
    """``link``: it reaches slurmctld and the other nodes; ``store``: it reaches the storage."""

    name: str
    link: bool = True
    store: bool = True
    on: bool = True

    @property
    def reaches_slurm(self) -> bool:
        return self.on and self.link


@dataclass(slots=True)
class Tasks:
    """The tasks of one attempt on one node."""

    attempt: Attempt
    node: Node
    alive: bool = True
    stopped: bool = False
    lease: Lease | None = None
    newer: Newer | None = None
    cursor: int = 0

    @property
    def writes(self) -> bool:
        return self.alive and not self.stopped and self.node.on and self.node.store


@dataclass(slots=True)
class Attempt:
    run: Run
    number: int
    launcher: Launcher
    started_at: float | None = None
    tasks: list[Tasks] = field(default_factory=list)


@dataclass(slots=True)
class Controller:
    """What slurmctld knows, and what it saves."""

    state: str = "PENDING"
    run: Run = _FIRST
    nodes: tuple[str, ...] = ()
    down: frozenset[str] = frozenset()


class Launcher:
    """``holdfast run`` of one run of the job, on its first node."""

    def __init__(self, world: World, run: Run, nodes: tuple[str, ...]) -> None:
        self.world, self.run, self.hosts = world, run, nodes
        self.node = world.nodes[nodes[0]]
        self.alive = True
        context = JobContext(
            job_id=JOB,
            restarts=run.restarts,
            nodes=",".join(nodes),
            node_count=len(nodes),
            host=nodes[0],
            started_at=run.started_at,
        )
        self.fence = Fence(context, cast(Journal, self), cast(SlurmClient, self))
        self.number = 0
        self.attempt: Attempt | None = None

    # the journal

    def all_events(self) -> list[Event]:
        return self.world.journal

    def add(self, event: str, **facts: Any) -> None:
        self.world.journal.append({"t": self.world.now, "event": event, **facts})

    # Slurm

    def nodes(self, names: Any) -> list[SlurmNode]:
        self._ask()
        down = self.world.slurm.down
        state = {True: frozenset({NodeState.DOWN}), False: frozenset({NodeState.IDLE})}
        return [SlurmNode(name=name, states=state[name in down]) for name in names]

    def job(self, _job_id: int) -> SlurmJob:
        self._ask()
        return self.world.slurm_job()

    def _ask(self) -> None:
        if not (self.node.reaches_slurm and self.world.slurm_up):
            raise Unavailable(["scontrol"], "no answer")

    # what it does

    def go(self, step: Callable[[], None]) -> None:
        """The next step, once the storage answers; nothing if the launcher has ended."""
        if not self.alive or not self.node.on:
            return
        if not self.node.store:
            self.world.after(_STEP_S, lambda: self.go(step))
            return
        try:
            step()
        except Superseded:
            self.end()

    def end(self) -> None:
        self.alive = False
        if self.attempt:
            for tasks in self.attempt.tasks:
                if tasks.node is self.node:
                    tasks.alive = False

    def begin(self) -> None:
        self.fence.check(self.number)
        events = of_last_job(self.all_events(), (self.run.restarts, self.run.started_at))
        self.number = 1 + sum(event["event"] == "attempt" for event in events)
        self.world.after(self.world.random.uniform(0, 0.3), lambda: self.go(self.announce))

    def announce(self) -> None:
        self.add(
            "attempt",
            attempt=self.number,
            restarts=self.run.restarts,
            job_start=self.run.started_at,
            nodes=",".join(self.hosts),
        )
        self.fence.check(self.number)
        delay_s = self.world.random.uniform(0, 0.5)
        self.world.after(delay_s, lambda: self.go(self.settle))

    def settle(self) -> None:
        wait_s = self.fence.due_s(self.number) if self.world.fenced else 0.0
        if wait_s:
            self.world.waits += 1
            self.world.after(wait_s, lambda: self.go(self.settled))
        else:
            self.start()

    def settled(self) -> None:
        self.fence.settled(self.number)
        self.start()

    def start(self) -> None:
        """srun starts the tasks, if slurmctld lets it and all nodes answer."""
        world = self.world
        reached = all(world.nodes[name].reaches_slurm for name in self.hosts)
        own = world.slurm.state == "RUNNING" and world.slurm.run == self.run
        if not (world.slurm_up and reached and own):
            world.after(1.0, lambda: self.go(self.start))
            return
        self.add("step_start", attempt=self.number)
        world.start(self)

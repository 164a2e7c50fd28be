"""One job on a small cluster with cut networks, power losses, failing tasks and a slurmctld that restarts and
forgets: the real parts of the fence decide, and no old attempt may be able to write after a new one started.

Real: ``Fence`` (what an attempt waits for), ``Newer`` (what is read from the journal), ``Lease`` (what agents do),
``past`` and ``of_last_job`` (the journal's history). Simulated: the nodes, their links, slurmctld and srun.
"""

from __future__ import annotations

import contextlib
import heapq
import io
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial

from holdfast.policy.job.fence import POLL_S, Lease, Order
from holdfast.records.job_journal import Event
from holdfast.slurm.client import SlurmJob
from slurm_hooks.job.fence.newer import Newer, Run
from tests.unit.property.cut_off_parts import (
    EPOCH,
    JOB,
    Attempt,
    Controller,
    Launcher,
    Node,
    Tasks,
)

HORIZON_S = 150.0
_TICK_S = 0.5


class Violation(AssertionError):
    """An old attempt could write after a newer one had started."""


class World:
    """``fenced``: False: nobody waits, stops or ends anything, as without the fence."""

    def __init__(self, seed: int, *, fenced: bool = True) -> None:
        self.random = random.Random(seed)
        self.fenced = fenced
        self.now = 0.0
        self._count = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self.nodes = {name: Node(name) for name in ("a", "b", "c", "d", "e")[: self._size()]}
        self.journal: list[Event] = []
        self.attempts: list[Attempt] = []
        self.launchers: list[Launcher] = []
        self.slurm = Controller()
        self._saved = Controller()
        self.slurm_up, self._unregistered = True, set[str]()
        self._heard: dict[str, float] = dict.fromkeys(self.nodes, 0.0)
        self._timeout_s = self.random.choice((2.0, 3.0, 8.0, 20.0))
        self._completing: set[str] = set()
        self.steps = self.restarts = self.waits = 0

    def _size(self) -> int:
        return self.random.choice((3, 4, 5))

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + seconds, self._count, act))

    # --- the history -------------------------------------------------------------------------------

    def run(self) -> None:
        """Raises ``Violation``."""
        self._place()
        self._saved = replace(self.slurm)
        for _ in range(self.random.randint(1, 6)):
            self.after(self.random.uniform(1, HORIZON_S - 40), self._disturb)
        self.after(0.5, self._tick)
        while self._events and self._events[0][0] < HORIZON_S:
            self.now, _, act = heapq.heappop(self._events)
            act()
            self.steps += 1
            self._check()

    def _check(self) -> None:
        started = [one for one in self.attempts if one.started_at is not None]
        for index, attempt in enumerate(started[:-1]):
            for tasks in attempt.tasks:
                if tasks.writes:
                    raise Violation(
                        f"{self.now:.1f} s: attempt {attempt.number} {attempt.run} can write on "
                        f"{tasks.node.name}, and {started[index + 1].run} has started"
                    )

    def _disturb(self) -> None:
        kinds = ("link", "store", "both", "power", "slurmctld", "task", "rack")
        weights = (6, 1, 4, 2, 2, 3, 1)
        kind = self.random.choices(kinds, weights)[0]
        lasts_s = self.random.choice((0.5, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)) * self.random.uniform(
            0.5, 1.5
        )
        used = [self.nodes[name] for name in self.slurm.nodes] or list(self.nodes.values())
        node = self.random.choice(used)
        if kind == "power":
            self._power_off(node, lasts_s)
        elif kind == "slurmctld":
            self._crash(min(lasts_s, 15.0))
        elif kind == "task":
            self._fail_task()
        else:
            for each in used if kind == "rack" else [node]:
                self._cut(each, kind, lasts_s)

    def _cut(self, node: Node, kind: str, lasts_s: float) -> None:
        """Of both links, one may heal before the other."""
        if kind in ("link", "both", "rack"):
            node.link = False
            self.after(lasts_s, lambda: setattr(node, "link", True))
        if kind in ("store", "both"):
            node.store = False
            also_s = self.random.choice((0.0, 0.0, -1.0, 1.0, 5.0, 20.0))
            self.after(max(0.1, lasts_s + also_s), lambda: setattr(node, "store", True))

    def _power_off(self, node: Node, lasts_s: float) -> None:
        node.on = False
        self._kill(node, lambda _: True)
        self.after(lasts_s, lambda: setattr(node, "on", True))

    def _kill(self, node: Node, which: Callable[[Run], bool]) -> None:
        for attempt in self.attempts:
            for tasks in attempt.tasks:
                if tasks.node is node and which(attempt.run):
                    tasks.alive = False
        for launcher in self.launchers:
            if launcher.node is node and which(launcher.run):
                launcher.alive = False

    def _fail_task(self) -> None:
        """A rank fails: srun ends the step on the nodes that it reaches, and the launcher decides."""
        attempt = self.attempts[-1] if self.attempts else None
        if attempt is None or not attempt.launcher.alive or not any(t.alive for t in attempt.tasks):
            return
        launcher = attempt.launcher
        whole = True
        for tasks in attempt.tasks:
            reached = tasks.node is launcher.node or (
                tasks.node.reaches_slurm and launcher.node.reaches_slurm
            )
            whole = whole and reached and tasks.node.on
            tasks.alive = tasks.alive and not reached
        in_place = whole and self.random.random() < 0.5

        def decide() -> None:
            launcher.fence.check(launcher.number)
            launcher.add("step_end", attempt=attempt.number, whole=whole, exit_code=1)
            act = launcher.begin if in_place else request
            self.after(self.random.uniform(0, 1), lambda: launcher.go(act))

        def request() -> None:
            launcher.fence.check(launcher.number)
            if self.slurm_up and launcher.node.reaches_slurm:
                self._requeue()
            else:
                self.after(1.0, lambda: launcher.go(request))

        launcher.go(decide)

    # --- slurmctld -----------------------------------------------------------------------------------

    def slurm_job(self) -> SlurmJob:
        run = self.slurm.run
        return SlurmJob(
            job_id=JOB,
            name="train",
            user="alice",
            state=self.slurm.state,
            state_reason="",
            restarts=run.restarts,
            requeue=True,
            start_at=datetime.fromtimestamp(run.started_at, tz=timezone.utc),
        )

    def _place(self) -> None:
        up = sorted(set(self.nodes) - self.slurm.down)
        if not self.slurm_up or self.slurm.state != "PENDING":
            return
        if len(up) < 2:
            self.after(1.0, self._place)
            return
        nodes = tuple(self.random.sample(up, 2))
        run = Run(self.slurm.run.restarts, float(EPOCH + int(self.now)))
        self.slurm = Controller("RUNNING", run, nodes, self.slurm.down)
        if not self.nodes[nodes[0]].reaches_slurm:
            return  # the script does not start; slurmctld notices when the node is DOWN
        launcher = Launcher(self, run, nodes)
        self.launchers.append(launcher)
        self.after(self.random.uniform(0.1, 1.0), lambda: launcher.go(launcher.begin))

    def _requeue(self) -> None:
        slurm = self.slurm
        if slurm.state != "RUNNING":
            return
        self.restarts += 1
        self._completing = set(slurm.nodes)
        self.slurm = Controller(
            "COMPLETING",
            Run(slurm.run.restarts + 1, slurm.run.started_at),
            slurm.nodes,
            slurm.down,
        )
        for name in slurm.nodes:
            self._end_on(self.nodes[name], slurm.run, 3.0)

    def _end_on(self, node: Node, run: Run, within_s: float) -> None:
        """slurmctld tells the node to end this run; it does so also if it is cut off meanwhile."""
        if node.reaches_slurm:
            kill = lambda: self._kill(node, lambda other: other == run)  # noqa: E731
            self.after(self.random.uniform(0.05, within_s), kill)

    def _tick(self) -> None:
        self.after(_TICK_S, self._tick)
        if not self.slurm_up:
            return
        for name, node in self.nodes.items():
            if node.reaches_slurm:
                self._heard[name] = self.now
                if name in self.slurm.down or name in self._unregistered:
                    self._register(node)
            elif self.now - self._heard[name] > self._timeout_s:
                self.slurm.down |= {name}
        if self.slurm.state == "RUNNING" and set(self.slurm.nodes) & self.slurm.down:
            self._requeue()
        if self.slurm.state == "COMPLETING":
            self._complete()
        if self.random.random() < 0.2:
            self._saved = replace(self.slurm)

    def _register(self, node: Node) -> None:
        """The node says which runs it has; slurmctld ends the others, and requeues a job without script."""
        self.slurm.down -= {node.name}
        self._unregistered.discard(node.name)
        slurm = self.slurm
        here = {tasks.attempt.run for a in self.attempts for tasks in a.tasks if tasks.node is node}
        here |= {launcher.run for launcher in self.launchers if launcher.node is node}
        for run in here:
            if not (slurm.state == "RUNNING" and run == slurm.run and node.name in slurm.nodes):
                self._end_on(node, run, 1.0)
        script = any(one.alive and one.run == slurm.run for one in self.launchers)
        if slurm.state == "RUNNING" and node.name == slurm.nodes[0] and not script:
            self._requeue()

    def _complete(self) -> None:
        """Nodes that confirm the end of the old run, or are DOWN, leave; then the job starts again."""
        for name in list(self._completing):
            node = self.nodes[name]
            alive = any(
                tasks.alive
                and tasks.node is node
                and tasks.attempt.run.restarts < self.slurm.run.restarts
                for attempt in self.attempts
                for tasks in attempt.tasks
            )
            if alive and node.reaches_slurm:
                for attempt in self.attempts:
                    if attempt.run.restarts < self.slurm.run.restarts:
                        self._end_on(node, attempt.run, 1.0)
            if name in self.slurm.down or (node.reaches_slurm and not alive):
                self._completing.discard(name)
        if not self._completing:
            self.slurm.state = "PENDING"
            self.after(self.random.uniform(0.3, 4.0), self._place)

    def _crash(self, lasts_s: float) -> None:
        """slurmctld is killed, and starts with the state that it saved last."""
        if not self.slurm_up:
            return
        self.slurm_up = False

        def start() -> None:
            saved = self._saved
            self.slurm = replace(saved)
            self.slurm_up = True
            self._heard = dict.fromkeys(self.nodes, self.now)
            self._unregistered = set(self.nodes)
            self._completing = set(saved.nodes) if saved.state == "COMPLETING" else set()
            if saved.state == "PENDING":
                self.after(self.random.uniform(0.3, 4.0), self._place)

        self.after(lasts_s, start)

    # --- the nodes -----------------------------------------------------------------------------------

    def start(self, launcher: Launcher) -> None:
        attempt = Attempt(launcher.run, launcher.number, launcher, self.now)
        launcher.attempt = attempt
        self.attempts.append(attempt)
        for name in launcher.hosts:
            tasks = Tasks(attempt, self.nodes[name])
            attempt.tasks.append(tasks)
            if self.fenced:
                self.after(self.random.uniform(0.1, 3.0), partial(self._poll, tasks))
        if self.fenced:
            self.after(POLL_S, lambda: self._watch(launcher, attempt))

    def _poll(self, tasks: Tasks) -> None:
        """The agent of the node looks at one attempt."""
        if not (tasks.alive and tasks.node.on):
            return
        attempt, node = tasks.attempt, tasks.node
        if tasks.lease is None or tasks.newer is None:
            tasks.lease = Lease(proved_at=self.now)
            tasks.newer = Newer(attempt.number, attempt.run)
        if node.store:
            tasks.newer.take(self.journal[tasks.cursor :])
            tasks.newer.begin()
            tasks.cursor = len(self.journal)
            tasks.lease = tasks.lease.read(self.now, newer=tasks.newer.event is not None)
        if tasks.lease.asks_slurm(self.now) and node.reaches_slurm and self.slurm_up:
            known = self.slurm
            if known.state == "RUNNING" and known.run.restarts == attempt.run.restarts:
                tasks.lease = tasks.lease.confirmed(self.now)
        tasks.lease = tasks.lease.at(self.now)
        tasks.alive = tasks.lease.order is not Order.END
        tasks.stopped = tasks.lease.order is Order.STOP
        wait_s = tasks.lease.look_again_s(self.now) + self.random.uniform(0, 0.8)
        self.after(wait_s, lambda: self._poll(tasks))

    def _watch(self, launcher: Launcher, attempt: Attempt) -> None:
        """The launcher's own look at the journal."""
        if not launcher.alive or launcher.attempt is not attempt:
            return
        if launcher.node.store and launcher.fence.superseded(attempt.number):
            launcher.end()
            return
        self.after(POLL_S + self.random.uniform(0, 0.5), lambda: self._watch(launcher, attempt))


def run_histories(seed: int, count: int) -> int:
    """How many events there were in ``count`` histories of a seed. Raises ``Violation``."""
    steps = 0
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        for number in range(count):
            world = World(seed * 1_000_003 + number)
            try:
                world.run()
            except Violation as error:
                raise Violation(f"history {number}: {error}") from None
            steps += world.steps
    return steps


def overlaps_without(seed: int, count: int) -> int:
    """In how many histories two attempts could write together if nothing were fenced."""
    found = 0
    for number in range(count):
        try:
            World(seed * 1_000_003 + number, fenced=False).run()
        except Violation:
            found += 1
    return found

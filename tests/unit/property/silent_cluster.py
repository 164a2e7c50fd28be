"""A cluster of ``Watch`` objects under stalls, freezes, partitions and power losses, in virtual time.

``Watch`` is the agents' own code. The network, the machines and slurmctld are simulated; a node that is
set DOWN although its machine was there within the last moments raises ``Violation``.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from holdfast.policy.node_death.heartbeat import Death, Heartbeat
from holdfast.policy.node_death.watch import HURRY_S, INTERVAL_S, Watch
from holdfast.vocabulary import SlurmName

SILENT_S = 2.0
SURE_S = 1.5
"""A machine that stood still for less than this may never be set DOWN."""
FOUND_S = 3.0
_NEVER = float("inf")


class Violation(AssertionError):
    """A live node was set DOWN, or a dead one was not."""


@dataclass(slots=True)
class Machine:
    """``clock``: monotonic clock minus true time. ``gone_since``: since when nothing of it reaches others."""

    name: SlurmName
    watch: Watch
    clock: float
    queue: list[Heartbeat] = field(default_factory=list)
    answers: list[SlurmName] = field(default_factory=list)
    power: bool = True
    frozen_until: float = 0.0
    stalled_until: float = 0.0
    lossy_until: float = 0.0
    loss: float = 0.0
    group: int = 0
    generation: int = 0
    gone_since: float = _NEVER


class SilentCluster:
    """``size`` nodes, all heard and armed once ``run`` has reached 10 s."""

    def __init__(self, seed: int, size: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._runs = 0
        self.slurmctld_frozen_until = 0.0
        self.split_until = 0.0
        self.disturbances = 0
        self.down: dict[SlurmName, float] = {}
        self.history: list[str] = []
        self.names = [SlurmName(f"worker-{number}") for number in range(size)]
        self.machines = {name: self._machine(name) for name in self.names}

    # --- time ----------------------------------------------------------------------------------

    def at(self, time: float, what: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (time, self._number, what))

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, what = heapq.heappop(self._events)
            what()
        self.now = until

    def say(self, text: str) -> None:
        self.disturbances += 1
        self.history.append(f"{self.now:9.2f} {text}")

    # --- machines ------------------------------------------------------------------------------

    def _machine(self, name: SlurmName) -> Machine:
        machine = Machine(name=name, watch=self._watch(name), clock=self.random.uniform(0, 1e6))
        self._schedule(machine, self.random.uniform(0, INTERVAL_S))
        return machine

    def _watch(self, name: SlurmName) -> Watch:
        self._runs += 1
        watch = Watch(name, f"run{self._runs}", SILENT_S)
        watch.know(self.names)
        return watch

    def _schedule(self, machine: Machine, after_s: float) -> None:
        generation = machine.generation
        self.at(self.now + after_s, lambda: self._round(machine, generation))

    def _round(self, machine: Machine, generation: int) -> None:
        if generation != machine.generation or not machine.power:
            return
        until = max(machine.frozen_until, machine.stalled_until)
        if self.now < until:
            self._schedule(machine, until - self.now)
            return
        now = self.now + machine.clock
        for beat in machine.queue:
            machine.watch.hear(beat, now)
        for name in machine.answers:
            machine.watch.answered(name, now)
        machine.queue, machine.answers = [], []
        done = machine.watch.round(now)
        for beat in done.beats:
            self._send(machine, beat)
        for name in done.connect:
            if self._reaches(machine, self.machines[name]) and self._reaches(
                self.machines[name], machine
            ):
                machine.answers.append(name)
        for death in done.dead:
            self.at(
                self.now + self.random.uniform(0.05, 0.25), partial(self._write, machine, death)
            )
        interval_s = HURRY_S if done.hurry else INTERVAL_S
        self._schedule(machine, interval_s + self.random.uniform(0, 0.03))

    def _send(self, machine: Machine, beat: Heartbeat) -> None:
        to = self.machines[beat.to]
        if self._reaches(machine, to):
            delay = self.random.uniform(0.0001, 0.005)
            generation = to.generation
            self.at(self.now + delay, lambda: self._arrive(to, generation, beat))

    def _arrive(self, to: Machine, generation: int, beat: Heartbeat) -> None:
        if to.power and to.generation == generation and len(to.queue) < 200:
            to.queue.append(beat)

    def _reaches(self, source: Machine, target: Machine) -> bool:
        for machine in (source, target):
            if not machine.power or self.now < machine.frozen_until:
                return False
            if self.now < machine.lossy_until and self.random.random() < machine.loss:
                return False
        return source.group == target.group

    # --- Slurm ---------------------------------------------------------------------------------

    def _write(self, machine: Machine, death: Death) -> None:
        """As ``step.set_down``: nothing is written by a slurmctld that did not answer just before."""
        if not machine.power:
            return
        if self.now < self.slurmctld_frozen_until:
            self.at(
                self.now + 2.0, lambda: machine.watch.settle(death.name, done=False, retry=True)
            )
            return
        gone_s = self.now - self.machines[death.name].gone_since
        self.say(f"{machine.name} sets {death.name} DOWN ({death})")
        if gone_s < SURE_S:
            raise Violation(
                f"{death.name} was set DOWN after {gone_s:.2f} s\n" + "\n".join(self.history[-20:])
            )
        self.down.setdefault(death.name, self.now)
        machine.watch.settle(death.name, done=True)

    # --- disturbances --------------------------------------------------------------------------

    def gone(self, name: SlurmName, for_s: float) -> None:
        """Nothing reaches this machine or comes from it, for so long (true time)."""
        machine = self.machines[name]
        machine.gone_since = min(machine.gone_since, self.now)
        end = self.now + for_s
        self.at(end, lambda: self._back(machine))

    def _back(self, machine: Machine) -> None:
        if machine.power and self.now >= max(machine.frozen_until, machine.lossy_until):
            machine.gone_since = _NEVER

    def freeze(self, name: SlurmName, for_s: float, *, clock_stops: bool) -> None:
        """The whole machine stands still. Its monotonic clock may or may not count that time."""
        self.say(f"{name} freezes for {for_s:.2f} s")
        machine = self.machines[name]
        machine.frozen_until = self.now + for_s
        if clock_stops:
            machine.clock -= for_s
        self.gone(name, for_s)

    def stall(self, name: SlurmName, for_s: float) -> None:
        """Only the agent stands still: its kernel answers."""
        if self.now < self.machines[name].stalled_until + 5:
            return
        self.say(f"{name}'s agent stalls for {for_s:.2f} s")
        self.machines[name].stalled_until = self.now + for_s

    def jump(self, name: SlurmName, by_s: float) -> None:
        """The clock that the agent reads jumps forward."""
        self.say(f"{name}'s clock jumps by {by_s:.2f} s")
        self.machines[name].clock += by_s

    def lose(self, name: SlurmName, share: float, for_s: float) -> None:
        """The machine's link loses this share of all packets."""
        self.say(f"{name} loses {share:.0%} for {for_s:.2f} s")
        machine = self.machines[name]
        machine.loss, machine.lossy_until = share, self.now + for_s
        self.gone(name, for_s)

    def partition(self, names: list[SlurmName], for_s: float) -> None:
        """These nodes are cut off from all others, and see each other. One such split at a time."""
        if self._is_split(for_s):
            return
        self.say(f"{names} are cut off for {for_s:.2f} s")
        for name in names:
            self.machines[name].group = 1
        self.at(self.now + for_s, lambda: self._join(names))

    def outage(self, for_s: float) -> None:
        """The switch forwards nothing."""
        if self._is_split(for_s):
            return
        self.say(f"no network for {for_s:.2f} s")
        for number, name in enumerate(self.names):
            self.machines[name].group = 10 + number
        self.at(self.now + for_s, lambda: self._join(self.names))

    def _is_split(self, for_s: float) -> bool:
        if self.now < self.split_until:
            return True
        self.split_until = self.now + for_s
        return False

    def _join(self, names: list[SlurmName]) -> None:
        for name in names:
            self.machines[name].group = 0

    def restart(self, name: SlurmName, after_s: float) -> None:
        """The agent ends, and another one starts."""
        self.say(f"{name}'s agent restarts after {after_s:.2f} s")
        machine = self.machines[name]
        machine.generation += 1
        machine.watch, machine.queue, machine.answers = self._watch(name), [], []
        self._schedule(machine, after_s)

    def freeze_slurmctld(self, for_s: float) -> None:
        self.say(f"slurmctld freezes for {for_s:.2f} s")
        self.slurmctld_frozen_until = self.now + for_s

    def power_off(self, name: SlurmName) -> None:
        self.say(f"{name} loses power")
        machine = self.machines[name]
        machine.power, machine.gone_since = False, min(machine.gone_since, self.now)
        machine.generation += 1

    def power_on(self, name: SlurmName) -> None:
        self.say(f"{name} has power again")
        machine = self.machines[name]
        machine.power, machine.gone_since = True, _NEVER
        machine.clock = self.random.uniform(0, 1e6)
        self.down.pop(name, None)
        self.restart(name, 0.1)


def disturb(cluster: SilentCluster) -> None:
    """Some seconds with one to six disturbances, several of them at once."""
    draw = cluster.random
    begin, count = cluster.now, draw.randint(1, 6)
    shaken: set[SlurmName] = set()
    for _ in range(count):
        name = draw.choice(cluster.names)
        kinds = ["stall", "restart", "jump", "slurmctld"]
        if name not in shaken:
            kinds += ["freeze", "lose"]
        if len(cluster.names) >= 4 and not shaken:
            kinds += ["partition", "outage"]
        kind = draw.choice(kinds)
        if kind in ("freeze", "lose"):
            shaken.add(name)
        if kind in ("partition", "outage"):
            shaken.update(cluster.names)
        cluster.at(begin + draw.uniform(0, 4), _disturbance(cluster, kind, name))
    cluster.run(begin + 6 + draw.uniform(0, 1))


def _disturbance(cluster: SilentCluster, kind: str, name: SlurmName) -> Callable[[], None]:
    draw = cluster.random
    short_s, long_s = draw.uniform(0.05, SURE_S - 0.1), draw.uniform(0.05, 20)
    if kind == "stall":
        return lambda: cluster.stall(name, long_s)
    if kind == "restart":
        return lambda: cluster.restart(name, short_s)
    if kind == "jump":
        return lambda: cluster.jump(name, long_s)
    if kind == "freeze":
        stops = draw.random() < 0.5
        return lambda: cluster.freeze(name, short_s, clock_stops=stops)
    if kind == "lose":
        share = draw.choice((0.3, 0.7, 1.0))
        return lambda: cluster.lose(name, share, short_s)
    if kind == "partition":
        size = draw.randint(2, len(cluster.names) - 2)
        names = draw.sample(cluster.names, size)
        return lambda: cluster.partition(names, long_s / 4)
    if kind == "outage":
        return lambda: cluster.outage(long_s / 2)
    return lambda: cluster.freeze_slurmctld(long_s)


def run_seed(seed: int, disturbances: int) -> tuple[int, list[float]]:
    """Disturbances, and power losses between them. Returns how many there were, and the seconds from each
    power loss to DOWN. Raises ``Violation``.
    """
    cluster = SilentCluster(seed, random.Random(seed).randint(3, 9))
    cluster.run(10)
    found: list[float] = []
    rounds = 0
    while cluster.disturbances < disturbances:
        disturb(cluster)
        rounds += 1
        if rounds % 10 == 0:
            found.append(_power_loss(cluster))
    return cluster.disturbances, found


def _power_loss(cluster: SilentCluster) -> float:
    """A power loss in a calm cluster, and the node's return."""
    cluster.run(max(cluster.now, cluster.slurmctld_frozen_until) + 40)
    name = cluster.random.choice(cluster.names)
    cluster.run(cluster.now + cluster.random.uniform(0, 1))
    begin = cluster.now
    cluster.power_off(name)
    cluster.run(begin + FOUND_S)
    if name not in cluster.down:
        raise Violation(f"{name} was not found\n" + "\n".join(cluster.history[-20:]))
    took_s = cluster.down[name] - begin
    cluster.run(cluster.now + 10)
    cluster.power_on(name)
    cluster.run(cluster.now + 15)
    return took_s

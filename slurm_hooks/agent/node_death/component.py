"""``node_death`` in the agent's loop: heartbeats twice a second, and what follows from silence."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

from holdfast.adapters.log import Log
from holdfast.config.kill_switch_files import ALL, switches_off
from holdfast.config.kill_switch_files import NODE_DEATH as CHECK
from holdfast.history.event import CLOSED, OPENED
from holdfast.policy.budget import NODE_DEATH as CODE
from holdfast.policy.budget import Count
from holdfast.policy.node_death.heartbeat import Death, Round
from holdfast.policy.node_death.watch import HURRY_S, INTERVAL_S, Watch
from holdfast.policy.ownership import Undrained
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.component import NEVER, Note
from slurm_hooks.agent.node_death import wire
from slurm_hooks.agent.node_death.network import Network
from slurm_hooks.agent.node_death.step import Outcome, Returned, Step, Table
from slurm_hooks.settings.sections import NodeDeathMode
from slurm_hooks.settings.settings import Settings
from slurm_hooks.worker.worker import Answer, Worker

log = Log("agent")

TABLE_S = 12 * 3600.0
"""Between two reads of the node table, when nothing indicates that it changed: of 10,000 agents these cost
slurmctld less than 1 % of a core."""
_TABLE_SOON_S = (60.0, 300.0)
"""After heartbeats of nodes that are no neighbours, or without an answer."""
_DEADLINE_S = 60.0
_DOWN_S = 6.0
_JOBS_AFTER_S = 2.0
"""slurmd refuses a job in the same second of slurmctld's clock in which its last run was revoked."""
_JOBS_FOR_S = 60.0
_RETURN_S = (5.0, 15.0, 45.0, 120.0, 300.0)
"""When an agent looks whether its node was set DOWN, after its start and after a neighbour said so. If the
last look could not be taken, the next one follows after as long again."""

_CHECK_S = (2.0, 5.0, 20.0, 60.0)
"""When accounting is asked what a return ended: it may be behind by a second, or by the time in which slurmdbd
was away."""

_ABOUT = {"code": CODE, "check": CHECK, "subject": "node", "boot_id": None}
"""In each event of the history. Which boot of that node it was, its neighbours do not know."""


class NodeDeath:
    """``healthy``: whether this node may return to service, as its agent sees it."""

    def __init__(
        self, node: SlurmName, config: Settings, note: Note, healthy: Callable[[], bool]
    ) -> None:
        self._node, self._config, self._note, self._healthy = node, config, note, healthy
        settings = config.agent.node_death
        self._act = settings.mode is NodeDeathMode.ACT
        self._watch = Watch(node, secrets.token_hex(8), settings.silent_s)
        self._worker = Worker("node_death", self._open, keep=False)
        self._asked: tuple[str, Any] = ("", None)
        self._key = b""
        self._network: Network | None = None
        self._addresses: dict[SlurmName, tuple[str, int]] = {}
        self._problem = ""
        self._open_deaths: dict[SlurmName, float] = {}
        self._deaths: list[Death] = []
        self._jobs: tuple[int, ...] = ()
        self._jobs_at, self._jobs_until = NEVER, NEVER
        self._returns: list[float] = []
        self._undrained: Undrained | None = None
        self._checks: list[float] = []
        self._strangers_at, self._strangers_s = 0.0, _TABLE_SOON_S[1]
        self._table_at = self._next = NEVER
        self.count: Count | None = None
        """Of the last table: how many nodes are out of service."""
        if settings.mode is not NodeDeathMode.OFF:
            now = time.monotonic()
            self._table_at = self._next = now
            self._look_for_return(now)

    @property
    def workers(self) -> list[Worker]:
        return [self._worker] if self._worker.busy else []

    @property
    def next_at(self) -> float:
        return self._next

    def fds(self) -> Iterator[tuple[int, int]]:
        """None: datagrams wait for the next round, so that they wake nobody."""
        return iter(())

    def turn(self, now: float) -> bool:
        answer = self._worker.take()
        if answer is not None:
            self._take(answer, now)
        now = time.monotonic()  # the other parts of the loop took their time
        if now >= self._next:
            self._next = now + INTERVAL_S
            if self._ready(now) and self._round(now):
                self._next = now + HURRY_S
        if not self._worker.busy:
            self._ask(now)
        self._worker.reap(now)
        return False

    def close(self) -> None:
        self._worker.close()
        if self._network is not None:
            self._network.close()

    # --- heartbeats ----------------------------------------------------------------------------

    def _ready(self, now: float) -> bool:
        """Whether key and port are there; if not, they are tried again after a minute."""
        if self._network is not None:
            return True
        settings = self._config.agent.node_death
        try:
            self._key = wire.read_key(settings.key_file, self._config.cluster.cluster)
            self._network = Network(settings.port)
        except wire.KeyProblem as error:
            problem = str(error)
        except OSError as error:
            problem = f"port {settings.port}: {error.strerror or error}"
        else:
            self._problem = ""
            return True
        if problem != self._problem:
            log.warning("dead nodes cannot be detected", why=problem)
        self._problem = problem
        self._next = now + _TABLE_SOON_S[0]
        return False

    def _round(self, now: float) -> bool:
        """Whether the next one is due early."""
        network = self._network
        assert network is not None  # noqa: S101 - see _ready
        for data in network.receive():
            beat = wire.decode(data, self._key)
            if beat is not None:
                self._watch.hear(beat, now)
        for name, lives in network.answers(now):
            if lives:
                self._watch.answered(SlurmName(name), now)
            else:
                self._watch.cannot_look(SlurmName(name))
        done = self._watch.round(now)
        for beat in done.beats:
            address = self._addresses.get(beat.to)
            if address is not None:
                network.send(wire.encode(beat, self._key), address[0])
        for name in done.connect:
            self._connect(name, 0, now)
        for name in done.connect_slurmd:
            self._connect(name, self._addresses.get(name, ("", 0))[1], now)
        self._follow(done, now)
        return done.hurry

    def _connect(self, name: SlurmName, port: int, now: float) -> None:
        address = self._addresses.get(name)
        if address is not None and self._network is not None:
            self._network.connect(name, address[0], port, now)

    def _follow(self, done: Round, now: float) -> None:
        for line in done.notes:
            log.warning(line)
        for name in done.returned:
            since = self._open_deaths.pop(name, None)
            if since is not None:
                log.info("node is heard again", node=name)
                self._note(CLOSED, node=name, open_s=round(now - since, 1), **_ABOUT)
        if done.reported_dead:
            self._look_for_return(now)
        if done.strangers and self._strangers_at <= now:
            self._strangers_at = now + self._strangers_s
            # A node that was removed from slurm.conf and still runs its agent would cost a
            # request each minute.
            self._strangers_s = min(2 * self._strangers_s, TABLE_S)
            self._read_table_by(now + random.uniform(*_TABLE_SOON_S))
        self._deaths += done.dead

    # --- Slurm ---------------------------------------------------------------------------------

    def _ask(self, now: float) -> None:
        """The request that is due next. A death comes first."""
        if self._deaths:
            death = self._deaths.pop(0)
            # It may have answered since: nothing may be done for a reason that is no longer true.
            if not self._watch.is_dead(death.name, now):  # another request may have taken a minute
                self._watch.settle(death.name, done=False, retry=True)
            elif self._may_act():
                log.warning("node is silent", node=death.name, silent_s=round(death.silent_s, 1))
                self._send("down", death, _DOWN_S)
            else:
                self._watch.settle(death.name, done=False)
        elif now >= self._table_at:
            # Spread, because agents that started together would all ask slurmctld in the same
            # second.
            self._table_at = now + TABLE_S * random.uniform(0.75, 1)
            self._send("table", None, _DEADLINE_S)
        elif now >= self._jobs_at:
            self._jobs_at = NEVER
            self._send("jobs", self._jobs, _DEADLINE_S)
        else:
            self._ask_about_return(now)

    def _ask_about_return(self, now: float) -> None:
        if self._checks and now >= self._checks[0]:
            self._checks = self._checks[1:]
            if self._may_act():
                self._send("check", self._undrained, _DEADLINE_S)
        elif self._returns and now >= self._returns[0] and self._healthy():
            self._returns = [at for at in self._returns if at > now]
            # Without the key it cannot be checked who set the node DOWN.
            if self._may_act() and self._key:
                self._send("return", None, _DEADLINE_S)
            else:
                self._look_again(now)

    def _send(self, what: str, value: Any, deadline_s: float) -> None:
        self._asked = (what, value)
        address = self._addresses.get(value.name, ("", 0))[0] if what == "down" else ""
        self._worker.ask((what, value, address), deadline_s=deadline_s)

    def _may_act(self) -> bool:
        return not switches_off(self._config.path) & {ALL, CHECK}

    def _open(self) -> Callable[[Any], Iterator[Any]]:
        step = Step(self._node, self._config, self._key, act=self._act)

        def serve(request: Any) -> Iterator[Any]:
            what, value, address = request
            if what == "table":
                yield step.table()
            elif what == "down":
                yield step.set_down(value, address)
            elif what == "jobs":
                yield step.start(value)
            elif what == "check":
                yield step.check_return(value)
            else:
                yield step.come_back() or ""

        return serve

    def _take(self, answer: Answer, now: float) -> None:
        (what, value), item = self._asked, answer.items[0] if answer.items else None
        if not answer.complete or item is None:
            self._failed(what, value, answer.error, now)
        elif isinstance(item, Table):
            self._take_table(item)
        elif isinstance(item, Outcome):
            self._take_outcome(item, now)
        elif what == "jobs":
            again, lines = item
            for line in lines:
                log.warning("job", action=line)
            self._start_jobs(again, now)
        elif isinstance(item, Returned):
            log.warning("returned to service, it is not dead", reason=item.reason)
            self._returns, self._undrained = [], item.undrained
            self._checks = [now + after_s for after_s in _CHECK_S] if item.undrained else []
        elif item:
            log.warning(item)
            self._checks = []

    def _failed(self, what: str, value: Any, why: str, now: float) -> None:
        if what == "down":
            log.error("node not set DOWN", node=value.name, why=why)
            self._watch.settle(value.name, done=False, retry=True)
        elif what == "table":
            if why != self._problem:
                log.warning("neighbours unknown, dead nodes cannot be detected", why=why)
            self._problem = why
            self._read_table_by(now + random.uniform(*_TABLE_SOON_S))
        elif what == "jobs":
            self._start_jobs(value, now)
        elif what == "return":
            self._look_again(now)

    def _take_table(self, table: Table) -> None:
        self._problem, self.count = "", table.count
        for line in table.missing:
            log.warning("no address of a neighbour", why=line)
        self._addresses = table.addresses
        near = self._watch.know(table.names)
        log.info("heartbeats", neighbours=",".join(near) or "none")

    def _take_outcome(self, outcome: Outcome, now: float) -> None:
        name = outcome.name
        self._watch.settle(name, done=True)  # also if its silence has another reason
        if outcome.why:
            log.warning("node not set DOWN", node=name, why=outcome.why)
            return
        mode = "drain" if outcome.written else "observe"
        log.warning("node set DOWN" if outcome.written else "node is dead", node=name, mode=mode)
        self._open_deaths[name] = now
        self._note(OPENED, node=name, mode=mode, severity="fatal", detail=outcome.reason, **_ABOUT)
        self._jobs_until = now + _JOBS_FOR_S
        self._start_jobs((*self._jobs, *outcome.jobs), now)

    def _start_jobs(self, jobs: tuple[int, ...], now: float) -> None:
        self._jobs = jobs if now < self._jobs_until else ()
        self._jobs_at = now + _JOBS_AFTER_S if self._jobs else NEVER

    def _read_table_by(self, at: float) -> None:
        self._table_at = min(self._table_at, at)

    def _look_for_return(self, now: float) -> None:
        if not self._returns:
            self._returns = [now + after_s for after_s in _RETURN_S]

    def _look_again(self, now: float) -> None:
        """Slurm did not answer, or nothing may be changed: a node that is DOWN must not stay so for ever."""
        self._returns = self._returns or [now + _RETURN_S[-1]]

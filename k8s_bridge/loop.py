"""The bridge's loop: read both sides, plan, apply.

It is level-triggered and stateless: all state is in Slurm and Kubernetes, so the process may be killed at any
time. The watch only starts the next pass early.
"""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from holdfast.adapters.log import Log
from holdfast.adapters.log_limit import LimitedLog
from holdfast.config.kill_switch_files import ALL, switches_off
from holdfast.errors import CommandError, HoldfastError, Refused
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import SlurmName
from k8s_bridge.config import SWITCH, BridgeConfig
from k8s_bridge.endpoints.health import Health
from k8s_bridge.endpoints.passes import Pass, now_ns
from k8s_bridge.feature import Feature
from k8s_bridge.kube.api import Kube, KubeError, KubeFailed, KubeRefused
from k8s_bridge.kube.watch import NodeWatch
from k8s_bridge.model.changes import Change, UpdateStatus
from k8s_bridge.model.disruption import Disruption
from k8s_bridge.model.node_mapping import NodeMapping
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.names import KUBERNETES, SLURM
from k8s_bridge.page.board import Board
from k8s_bridge.planning.plan import plan_unreadable
from k8s_bridge.planning.planner import Planner
from k8s_bridge.planning.signals import Signals
from k8s_bridge.slurm_view import CountingSlurm, SlurmView, Topology
from k8s_bridge.writes.apply import Applier
from k8s_bridge.writes.connections import Wait
from k8s_bridge.writes.holds import Holds
from k8s_bridge.writes.listener import Listener
from k8s_bridge.writes.refusals import LONGEST, LONGEST_FAILURE, Refusals

if TYPE_CHECKING:
    from k8s_bridge.endpoints.metrics import BridgeMetrics

log = LimitedLog(Log("bridge"))

SLICE_S = 1.0
"""The longest time of writing between two looks: in a storm, a new drain is seen after it, and goes first."""
QUESTION_S = 0.7
"""The time between two questions to slurmctld whether nodes were changed."""
FIRST_LOOK_S = 0.3
"""How long a look is expected to take before there was one."""
SHORTEST_PAUSE_S = 0.1
"""The pause after a pass that wrote all it planned: a burst of changes is handled together."""


_NONE: Mapping[SlurmName, Disruption] = {}


class Look(NamedTuple):
    """Both sides at one time, and the changes that make them consistent. None: a side is not known, and
    nothing is changed.
    """

    slurm: list[SlurmNode] | None
    kube: list[KubeNode] | None
    changes: list[Change] | None


class Bridge:
    """One cluster's bridge. The kill switches are beside the file ``config``."""

    def __init__(
        self,
        slurm: CountingSlurm,
        kube: Kube,
        policy: BridgeConfig,
        config: Path | None,
        metrics: BridgeMetrics,
    ):
        self._slurm, self._policy, self._config, self._metrics = slurm, policy, config, metrics
        self.wake, self.stopping = threading.Event(), threading.Event()
        self.watch = NodeWatch(kube, self.wake)
        listener = Listener(
            known=self.watch.known,
            seen=self.watch.update,
            failed=self._failed,
            wrote=self._wrote,
        )
        self._applier = Applier(slurm, kube, policy.slurm_user, listener, policy.connections)
        self._view = SlurmView(slurm, policy.full_read_s)
        self._planner = Planner(policy)
        self._refusals = Refusals()
        self._signals = Signals(policy)
        self._holds = Holds(policy.hold_unknown_s, policy.hold_free_s)
        self._failing = threading.Lock()
        self.features: list[Feature] = []
        self.disruptions: Callable[[], Mapping[SlurmName, Disruption]] = lambda: _NONE
        """The worker pods that Kubernetes ends; the same object while nothing changed."""
        self.trace: Callable[[Pass], None] = lambda _: None
        self.topology = Topology()
        self.verbose = False
        self.health, self.board = Health(math.inf), Board()
        self._now = datetime.now(timezone.utc)
        self._misses = 0
        self._looked_ns = self._planned = 0  # of this pass
        self._unfinished = False  # the time of writing ended before the plan
        self._ahead: Look | None = None  # made while the last plan was written
        self._look_s = FIRST_LOOK_S
        self._warned: frozenset[str] = frozenset()

    def run(self) -> None:
        """Run until ``stop``."""
        self.watch.start()
        for each in self.features:
            each.start()
        while not self.stopping.is_set():
            self.wake.clear()
            self._one_pass()
            self._pause()
        self.watch.stop()
        for each in self.features:
            each.stop()

    def _one_pass(self) -> None:
        self._unfinished, problem, written = False, "", 0
        begun = self._looked_ns = now_ns()
        self._planned = 0
        try:
            written = self.step(datetime.now(timezone.utc))
        except (KubeError, CommandError) as error:
            problem = type(error).__name__
            log.warning("pass ended early; retrying", why=error)
        except Exception as error:
            problem = type(error).__name__
            log.exception("pass failed; retrying", error)
        self._metrics.passed(failed=bool(problem))
        ended = now_ns()
        self.trace(Pass(begun, self._looked_ns, ended, self._planned, written, problem))

    def stop(self) -> None:
        """End after the present call; each call is bounded in time."""
        self.stopping.set()
        self.wake.set()

    def _pause(self) -> None:
        """Wait for the next look. A full read of Slurm's nodes has its time here: no look waits for it."""
        if self._unfinished:
            return
        self.stopping.wait(SHORTEST_PAUSE_S)
        begun = time.monotonic()
        try:
            self._view.refresh()
        except CommandError as error:
            log.info("Slurm's nodes cannot be read in full", why=error)  # the next look reports it
        except Exception as error:
            log.exception("Slurm's nodes cannot be read in full", error)
        self._wait(begun + self._policy.poll_s)

    def _wait(self, until: float) -> None:
        """Until that monotonic time, or until something has changed on either side."""
        while (left := until - time.monotonic()) > 0:
            if self.wake.wait(min(left, QUESTION_S)):
                return
            # Right before a look, a question tells nothing that the look does not.
            if until - time.monotonic() > QUESTION_S / 2 and self._view.changed():
                return

    def step(self, now: datetime) -> int:
        """One pass: read both sides, plan, apply. Returns the number of changes written."""
        self.health.alive()
        ahead, self._ahead = self._ahead, None
        slurm, kube, changes = ahead or self._look(now)
        self._looked_ns = now_ns()
        if kube is None or changes is None:
            self.board.seen(slurm, kube, (), now)
            return 0  # nothing is changed while a side is unknown
        if ahead is not None:
            changes = [change for change in changes if self._is_current(change)]
        changes = self._allowed(self._holds.due(changes, time.monotonic()))
        self.board.seen(slurm, kube, changes, now, switched_off=self.is_off())
        for change in changes if self.verbose else ():
            log.info("change planned", node=change.kube.name, change=change)
        due = self._refusals.due(changes, now)
        self._planned = len(due)
        self._now = now
        until = time.monotonic() + SLICE_S
        done = self._applier.apply(due, until, partial(self._look_ahead, until))
        if done:
            log.info("changes written", written=done, planned=len(changes))
        self._unfinished = self._ahead is not None or time.monotonic() >= until
        if done or self._unfinished:
            self.wake.set()
        return done

    def _look(self, now: datetime) -> Look:
        """Read both sides, and plan."""
        begun = time.monotonic()
        slurm = self._read_slurm()
        kube = self.watch.nodes()
        if slurm is None or kube is None:
            self._show(slurm, kube)  # else with what the rules say
        if kube is None:
            self.health.silent(KUBERNETES, self.watch.problem or "its Nodes are not listed yet")
            return Look(slurm, None, None)  # the state of Kubernetes is unknown: change nothing
        self.health.seen(KUBERNETES)
        self._metrics.seen(KUBERNETES, len(kube))
        if slurm is None:
            if self._misses < self._policy.unreadable_polls:
                return Look(None, kube, None)
            return Look(None, kube, plan_unreadable(kube, now, "slurmctld does not answer"))
        self.topology.refresh()
        kube = self._signals.look(slurm, kube, now, self.disruptions(), self.topology.domains)
        self._show(slurm, kube)
        for line in self._signals.notices():
            log.warning(line)
        changes = self._planner.plan(slurm, kube, now)
        self._warn(self._planner.mapping, bool(slurm and kube))
        self._look_s = time.monotonic() - begun
        return Look(slurm, kube, changes)

    def _show(self, slurm: list[SlurmNode] | None, kube: list[KubeNode] | None) -> None:
        for each in self.features:
            each.see(slurm, kube)

    def _look_ahead(self, until: float, wait: Wait) -> None:
        """The look of the next pass, while the rest of a long plan is written: no connection waits for it.

        Nothing is written by two plans at once: its changes are written after all writes of this plan have
        ended, and only on Nodes that are still as they were in the look.
        """
        if not wait(until - min(self._look_s, SLICE_S / 2)):
            self.health.alive()
            self._ahead = self._look(datetime.now(timezone.utc))

    def _is_current(self, change: Change) -> bool:
        """Is the Node still as in the plan, apart from heartbeats?"""
        known = self.watch.known(change.kube.name)
        if known is None:
            return change.kube.gone
        return known is change.kube or known.same_content(change.kube)

    def _failed(self, change: Change, error: HoldfastError) -> None:
        self.health.alive()
        with self._failing:  # called on each connection's thread
            self._postpone(change, error)

    def _postpone(self, change: Change, error: HoldfastError) -> None:
        if isinstance(error, (KubeRefused, Refused, KubeFailed)):
            longest = LONGEST_FAILURE if isinstance(error, KubeFailed) else LONGEST
            wait = self._refusals.refused(change, self._now, longest)
            self._metrics.refused(type(change))
            log.info("change is retried later", node=change.kube.name, wait_s=wait.total_seconds())
        else:
            self._refusals.conflicted(change, self._now)
            self._metrics.conflicted(type(change))

    def _read_slurm(self) -> list[SlurmNode] | None:
        try:
            nodes = self._view.read()
        except CommandError as error:
            self._misses += 1
            self.health.silent(SLURM, error)
            if self._misses in (1, self._policy.unreadable_polls) or self._misses % 30 == 0:
                log.warning("Slurm cannot be read", tries=self._misses, why=error)
            return None
        if self._misses:
            log.info("Slurm can be read again")
        self._misses = 0
        self.health.seen(SLURM)
        self._metrics.seen(SLURM, len(nodes))
        return nodes

    def _allowed(self, changes: list[Change]) -> list[Change]:
        if not self._policy.events:
            changes = [
                dataclasses.replace(c, events=()) if isinstance(c, UpdateStatus) else c
                for c in changes
            ]
        switched_off = self.is_off()
        if switched_off:
            changes = [change for change in changes if isinstance(change, UpdateStatus)]
        self._metrics.planned(changes, kill_switch_active=switched_off)
        return changes

    def is_off(self) -> bool:
        """Does a kill switch stop all actions?"""
        return bool(switches_off(self._config) & {ALL, SWITCH})

    def _wrote(self, change: type[Change], count: int = 1) -> None:
        self.health.alive()
        self._metrics.wrote(change, count)

    def _warn(self, joined: NodeMapping, some: bool) -> None:
        """Warn about nodes that cannot be mapped, once for each change. ``some``: both sides have nodes."""
        doubtful = frozenset[str](joined.ambiguous)
        if doubtful - self._warned:
            log.warning(
                "ignored, as several Slurm nodes map to one Node", nodes=",".join(sorted(doubtful))
            )
        if some and not joined.pairs and "" not in self._warned:
            log.warning("no Slurm node maps to a Kubernetes Node: check bridge.join")
            doubtful |= {""}
        self._warned = doubtful if joined.pairs else doubtful | (self._warned & {""})

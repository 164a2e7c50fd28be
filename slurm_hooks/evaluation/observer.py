"""Turns readings and kernel records into open findings, and tracks what later judgements need.

Holds the current TrackedState, the only thing here that changes; everything that it calls is pure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.policy.flap_damping import Return, with_return
from holdfast.vocabulary import Action, Mode, Severity
from slurm_hooks import checks
from slurm_hooks.checks.gpu_xid import demand_of
from slurm_hooks.checks.kernel_log import event_finding
from slurm_hooks.evaluation.judge import OpenFinding, Table, fold, nothing_drains, opened
from slurm_hooks.facts import Blind, KernelEvent, LeftoverFacts, NodeFacts, PciKind, XidEvent
from slurm_hooks.probes.catalogue import BY_NAME
from slurm_hooks.probes.kmsg.events import EventReader
from slurm_hooks.probes.kmsg.follower import KernelRecord, xid_of
from slurm_hooks.probes.runner import Readings
from slurm_hooks.tracking import kernel
from slurm_hooks.tracking import node as trackers
from slurm_hooks.tracking.new_events import new_events
from slurm_hooks.tracking.node import TrackedState
from slurm_hooks.tracking.reboot import acknowledged, booted, recognised

KMSG = "kmsg"


def demand(event: XidEvent | KernelEvent) -> tuple[Severity, Action]:
    """Severity and required action of an event, from the fault catalogue."""
    found = demand_of(event) if isinstance(event, XidEvent) else event_finding(event)
    return found.severity, found.action


def _saw_gpus(tracked: TrackedState, nvml: Any, now: float) -> tuple[TrackedState, Any]:
    return trackers.saw_gpus(tracked, nvml, demand, now)


_ADD_HISTORY: Mapping[str, Callable[[TrackedState, Any, float], tuple[TrackedState, Any]]] = {
    "nvml": _saw_gpus,
    "ports": trackers.saw_ports,
    "pci": trackers.saw_pci,
    "host": trackers.saw_host,
    "system": trackers.saw_system,
}
"""The facts that are judged together with earlier ones: the function that adds those and tracks the
new."""


class Observer:
    """The state of this node. ``boot_id``: of this boot; ``start``: the state that an earlier agent
    saved."""

    def __init__(
        self,
        expected_gpus: int,
        boot_id: str,
        start: TrackedState,
        expected_hcas: frozenset[str] = frozenset(),
    ) -> None:
        self.tracked = booted(start, boot_id, demand)
        self._expected_gpus, self._expected_hcas = expected_gpus, expected_hcas
        self._looked: set[str] = set()
        self._answered: set[str] = set()
        self._awaited: set[str] = set()
        self.skips_old_log = start.lost_and_empty
        """True until the kernel log was read once after the tracked state was lost: its old records
        are skipped."""
        self._found: dict[str, Any] = {}
        self.leftovers: tuple[LeftoverFacts, ...] = ()
        self.unwritten = self.unconfirmed = ""
        self._blind: dict[str, Blind] = {}
        self._reader = EventReader()
        self.new_events: list[XidEvent | KernelEvent] = []
        """The events of the last records that must be judged at once."""
        self.facts = self._facts()

    def read_kernel_log(
        self, records: Sequence[KernelRecord], *, renewed: bool = False
    ) -> list[XidEvent]:
        """Take new kernel records; returns the Xids among them and sets ``new_events``."""
        self.new_events = []
        is_known, self.skips_old_log = self.skips_old_log, False
        # The log's sequence numbers began again, so the last one that was read says nothing.
        if renewed:
            self.tracked = trackers.kernel_log_restarted(self.tracked)
        if not records:
            return []
        xids: list[XidEvent] = []
        events: list[XidEvent | KernelEvent] = []
        for record in records:
            xid = xid_of(record)
            if xid is not None:
                xids.append(xid)
            events += [xid] if xid is not None else self._reader.read([record])
        # They may be of faults that a person has dealt with before the state was lost.
        if is_known:
            self.tracked = trackers.kernel_log_known(self.tracked, events, records[-1].seq)
            return []
        self.new_events = new_events((*self.tracked.xids, *self.tracked.events), events, demand)
        self.tracked = trackers.with_events(
            self.tracked,
            events,
            seq=records[-1].seq,
            lost=sum(record.lost for record in records),
            demand=demand,
        )
        self._confirm()
        return xids

    def read_probes(self, readings: Readings, *, log_problem: str, uptime_s: float) -> None:
        """Take the readings of one pass. ``log_problem``: why the kernel log cannot be read."""
        tracked, now = trackers.aged(self.tracked, uptime_s, demand), time.time()
        found = readings.facts
        tracked = recognised(tracked, found.get("nvml"), found.get("ports"))
        for name, saw in _ADD_HISTORY.items():
            if name in found:
                tracked, found[name] = saw(tracked, found[name], now)
        self.tracked = self._with_readings(tracked, readings, log_problem)
        self._looked = readings.looked
        self._answered |= readings.asked
        self._awaited = readings.under_way - self._answered
        self._confirm()
        self.facts = self._facts()

    def _confirm(self) -> None:
        """Confirm kernel events by what other probes report about their devices."""
        events = kernel.confirmed(self.tracked.events, self._found.get("host"))
        self.tracked = replace(self.tracked, events=events)

    def _with_readings(
        self, tracked: TrackedState, readings: Readings, log_problem: str
    ) -> TrackedState:
        """The state after these readings. A probe that was not due in this pass keeps its last
        reading."""
        blind = {item.probe: item for item in readings.blind}
        if log_problem:
            blind[KMSG] = Blind(probe=KMSG, why=log_problem)
        # Slow probes run in some passes only; between them their findings must neither open nor
        # close.
        idle = readings.wanted - readings.asked - {KMSG}
        fields = {BY_NAME[name].facts for name in idle if name in BY_NAME}
        self._found = {k: v for k, v in self._found.items() if k in fields} | readings.facts
        self._blind = {k: v for k, v in self._blind.items() if k in idle} | blind
        answered = set(tracked.blind) - set(blind) - idle
        return trackers.saw_blind(tracked, answered | readings.looked - set(blind), blind)

    def judge(self, table: Table, looked: frozenset[str] | None = None) -> tuple[OpenFinding, ...]:
        """Apply the checks. ``looked``: the probes with new readings; None: all of the last pass."""
        self.facts = replace(self.facts, kmsg=self.tracked.kmsg)
        if looked is None:
            looked = frozenset(self._looked | self._kmsg_looked())
        streaks = fold(self.tracked.streaks, table, self.facts, looked, time.time())
        self.tracked = replace(self.tracked, streaks=streaks)
        return opened(streaks, table)

    def judge_kernel_log(self, table: Table) -> tuple[OpenFinding, ...]:
        """Apply the kernel log's checks only: an Xid between two passes does not count as a pass of
        the others."""
        names = {name: table[name] for name in table if checks.load(name).probe == KMSG}
        others = {k: s for k, s in self.tracked.streaks.items() if s.finding.check not in names}
        self.judge(names, frozenset({KMSG}))
        # judge() has dropped the streaks of the checks that were not in its table.
        self.tracked = replace(self.tracked, streaks={**others, **self.tracked.streaks})
        return opened(self.tracked.streaks, table)

    def clean(self, table: Table) -> bool:
        """Whether the last pass is evidence that no fault that drains is present. It is not while a
        check waits for a first answer, or while it is unknown whether this is still the machine
        from before the boot.
        """
        needed = {checks.load(name).probe for name in table if table[name].mode is Mode.DRAIN}
        if self.tracked.unproven or needed & self._awaited:
            return False
        return nothing_drains(self.tracked.streaks, table, self.facts)

    def acknowledge(self) -> None:
        """A person resumed the node: earlier events no longer count, and missing devices are
        accepted."""
        self.tracked = acknowledged(self.tracked, self.facts)

    def returned(self, code: str) -> None:
        """The agent returned the node to service after a drain for ``code``."""
        new = Return(code=code, at=time.time())
        self.tracked = replace(self.tracked, returns=with_return(self.tracked.returns, new))

    def _kmsg_looked(self) -> set[str]:
        return set() if any(blind.probe == KMSG for blind in self.facts.blind) else {KMSG}

    def _facts(self) -> NodeFacts:
        passes, pci = self.tracked.blind, self._found.get("pci")
        return NodeFacts(
            expected_gpus=self._expected_gpus,
            expected_hcas=self._expected_hcas,
            boot_id=self.tracked.boot_id,
            kmsg=self.tracked.kmsg,
            leftovers=self.leftovers,
            unwritten=self.unwritten,
            unconfirmed=self.unconfirmed,
            blind=tuple(
                replace(blind, passes=passes.get(name, 1)) for name, blind in self._blind.items()
            ),
            pcie=pci.of(PciKind.GPU) if pci else None,
            **self._found,
        )


def blind_names(facts: NodeFacts, table: Mapping[str, Any]) -> tuple[str, ...]:
    """The silent probes that count for the verdict. Some do not: slurmctld's clock, for example, is
    not a property of this node.
    """
    silent = {blind.probe for blind in facts.blind if table}
    return tuple(sorted(name for name in silent if name not in BY_NAME or BY_NAME[name].vital))

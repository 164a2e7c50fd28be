"""Turns readings and kernel records into open findings, and remembers what has to be remembered.

Holds the one mutable thing of it, the current Memory; everything that it calls is pure.
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
from slurm_hooks.evaluation.judge import Opened, Table, fold, opened, speaks_for_the_node
from slurm_hooks.facts import Blind, KernelEvent, LeftoverFacts, NodeFacts, PciKind, XidEvent
from slurm_hooks.probes.catalogue import BY_NAME
from slurm_hooks.probes.kmsg import Record, xid_of
from slurm_hooks.probes.kmsg_events import EventReader
from slurm_hooks.probes.runner import Readings
from slurm_hooks.tracking import kernel
from slurm_hooks.tracking import node as remember
from slurm_hooks.tracking.new_events import news
from slurm_hooks.tracking.node import Memory
from slurm_hooks.tracking.reboot import booted, forgiven, recognised

KMSG = "kmsg"


def demand(event: XidEvent | KernelEvent) -> tuple[Severity, Action]:
    """The fault catalogue's word on an event."""
    found = demand_of(event) if isinstance(event, XidEvent) else event_finding(event)
    return found.severity, found.action


def _saw_gpus(memory: Memory, nvml: Any, now: float) -> tuple[Memory, Any]:
    return remember.saw_gpus(memory, nvml, demand, now)


_REMEMBERED: Mapping[str, Callable[[Memory, Any, float], tuple[Memory, Any]]] = {
    "nvml": _saw_gpus,
    "ports": remember.saw_ports,
    "pci": remember.saw_pci,
    "host": remember.saw_host,
    "system": remember.saw_system,
}
"""Facts that take a past to be judged: what adds it to them and remembers them."""


class Observer:
    """What is known of this node. ``boot_id`` is this boot's; ``start`` what an earlier agent
    remembered.
    """

    def __init__(
        self,
        expected_gpus: int,
        boot_id: str,
        start: Memory,
        expected_hcas: frozenset[str] = frozenset(),
    ) -> None:
        self.memory = booted(start, boot_id, demand)
        self._expected_gpus, self._expected_hcas = expected_gpus, expected_hcas
        self._looked: set[str] = set()
        self._answered: set[str] = set()
        self._awaited: set[str] = set()
        self.log_is_known = start.begun_anew
        """True until the kernel log was read once: what it tells is from before the memory was lost."""
        self._found: dict[str, Any] = {}
        self.leftovers: tuple[LeftoverFacts, ...] = ()
        self.unwritten = self.unconfirmed = ""
        self._blind: dict[str, Blind] = {}
        self._reader = EventReader()
        self.news: list[XidEvent | KernelEvent] = []
        """Of the records heard last, what must be judged at once."""
        self.facts = self._facts()

    def hear(self, records: Sequence[Record], *, renewed: bool = False) -> list[XidEvent]:
        """Take in kernel records; returns the Xids among them. ``news`` is what must be judged."""
        self.news = []
        is_known, self.log_is_known = self.log_is_known, False
        if renewed:
            self.memory = remember.log_renewed(self.memory)
        if not records:
            return []
        xids: list[XidEvent] = []
        events: list[XidEvent | KernelEvent] = []
        for record in records:
            xid = xid_of(record)
            if xid is not None:
                xids.append(xid)
            events += [xid] if xid is not None else self._reader.read([record])
        if is_known:
            self.memory = remember.log_known(self.memory, events, records[-1].seq)
            return []
        self.news = news((*self.memory.xids, *self.memory.events), events, demand)
        self.memory = remember.heard(
            self.memory,
            events,
            seq=records[-1].seq,
            lost=sum(record.lost for record in records),
            demand=demand,
        )
        self._confirm()
        return xids

    def see(self, readings: Readings, *, log_problem: str, uptime_s: float) -> None:
        """Take in one pass over the probes. ``log_problem``: why the kernel log cannot be read."""
        memory, now = remember.aged(self.memory, uptime_s, demand), time.time()
        found = readings.facts
        memory = recognised(memory, found.get("nvml"), found.get("ports"))
        for name, saw in _REMEMBERED.items():
            if name in found:
                memory, found[name] = saw(memory, found[name], now)
        self.memory = self._took(memory, readings, log_problem)
        self._looked = readings.looked
        self._answered |= readings.asked
        self._awaited = readings.under_way - self._answered
        self._confirm()
        self.facts = self._facts()

    def _confirm(self) -> None:
        """What other probes know of the devices that the kernel log names."""
        events = kernel.confirmed(self.memory.events, self._found.get("host"))
        self.memory = replace(self.memory, events=events)

    def _took(self, memory: Memory, readings: Readings, log_problem: str) -> Memory:
        """Of a probe that was not asked in this pass, what it last said still stands."""
        blind = {item.probe: item for item in readings.blind}
        if log_problem:
            blind[KMSG] = Blind(probe=KMSG, why=log_problem)
        idle = readings.wanted - readings.asked - {KMSG}
        fields = {BY_NAME[name].facts for name in idle if name in BY_NAME}
        self._found = {k: v for k, v in self._found.items() if k in fields} | readings.facts
        self._blind = {k: v for k, v in self._blind.items() if k in idle} | blind
        spoke = set(memory.blind) - set(blind) - idle
        return remember.saw_blind(memory, spoke | readings.looked - set(blind), blind)

    def judge(self, table: Table, looked: frozenset[str] | None = None) -> tuple[Opened, ...]:
        """Apply the checks. ``looked``: the probes that have news; None: all of the last pass."""
        self.facts = replace(self.facts, kmsg=self.memory.kmsg)
        if looked is None:
            looked = frozenset(self._looked | self._kmsg_looked())
        streaks = fold(self.memory.streaks, table, self.facts, looked, time.time())
        self.memory = replace(self.memory, streaks=streaks)
        return opened(streaks, table)

    def hear_and_judge(self, table: Table) -> tuple[Opened, ...]:
        """The kernel log's checks alone: an Xid between two passes is no pass of the others."""
        names = {name: table[name] for name in table if checks.load(name).probe == KMSG}
        others = {k: s for k, s in self.memory.streaks.items() if s.finding.check not in names}
        self.judge(names, frozenset({KMSG}))
        self.memory = replace(self.memory, streaks={**others, **self.memory.streaks})
        return opened(self.memory.streaks, table)

    def clean(self, table: Table) -> bool:
        """Whether the last pass is evidence that nothing is wrong that drains: no check waits for a first
        answer, and this is known to be the machine of before the boot, or another one.
        """
        needed = {checks.load(name).probe for name in table if table[name].mode is Mode.DRAIN}
        if self.memory.unproven or needed & self._awaited:
            return False
        return speaks_for_the_node(self.memory.streaks, table, self.facts)

    def forgive(self) -> None:
        """A person put the node back into service: past events no longer count, and what is missing
        need not be there.
        """
        self.memory = forgiven(self.memory, self.facts)

    def returned(self, code: str) -> None:
        """The agent gave the node back after a drain for ``code``."""
        one = Return(code=code, at=time.time())
        self.memory = replace(self.memory, returns=with_return(self.memory.returns, one))

    def _kmsg_looked(self) -> set[str]:
        return set() if any(blind.probe == KMSG for blind in self.facts.blind) else {KMSG}

    def _facts(self) -> NodeFacts:
        passes, pci = self.memory.blind, self._found.get("pci")
        return NodeFacts(
            expected_gpus=self._expected_gpus,
            expected_hcas=self._expected_hcas,
            boot_id=self.memory.boot_id,
            kmsg=self.memory.kmsg,
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
    """The silent probes that matter for the verdict: slurmctld's clock, for one, says nothing about
    this node.
    """
    silent = {blind.probe for blind in facts.blind if table}
    return tuple(sorted(name for name in silent if name not in BY_NAME or BY_NAME[name].vital))

"""The state of this node that the agent tracks between passes and across its own restarts. Pure: no
I/O here.

Everything is keyed by boot id, GPU UUID and port, so that a rebooted node and a replaced GPU
inherit nothing that does not survive the reboot or the replacement (rule 10).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from holdfast.findings import Finding
from holdfast.policy.flap_damping import Return
from holdfast.vocabulary import Action, Severity
from slurm_hooks.facts import (
    HostFacts,
    KernelEvent,
    KmsgFacts,
    NvmlFacts,
    PcieFacts,
    PciFacts,
    PortFacts,
    SystemFacts,
    XidEvent,
)
from slurm_hooks.tracking import fabric, kernel
from slurm_hooks.tracking import gpu as tracked_gpu
from slurm_hooks.tracking import host as tracked_host
from slurm_hooks.tracking.fabric import PciSeen, PortSeen
from slurm_hooks.tracking.gpu import GpuSeen
from slurm_hooks.tracking.host import HostSeen
from slurm_hooks.tracking.kernel import lasting

MAX_EVENTS = 200
FORGET_S = {Severity.INFO: 3600.0, Severity.WARN: 24 * 3600.0}
"""How long an Xid that is not fatal counts. Fatal ones count until the required action was taken.
"""


SURVIVES_RESET = {Action.REBOOT, Action.REPLACE, Action.CONTACT_SUPPORT}

Demand = Callable[[XidEvent | KernelEvent], tuple[Severity, Action]]
"""Severity and required action of an event, from the fault catalogue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Streak:
    """How often in a row a finding was seen, or not seen since. ``open``: it counts; ``since``:
    epoch s."""

    finding: Finding
    seen: int = 0
    clean: int = 0
    open: bool = False
    since: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedState:
    """All tracked state of one node.

    ``unproven``    not known yet whether this is still the machine from before the boot.
    ``lost``        the state from earlier in this boot could not be read.
    ``kmsg_seq``    sequence number of the last kernel record that was read.
    ``xids``, ``events``  those not yet resolved, oldest first.
    ``heard_s``     time since boot up to which the kernel log was read.
    ``reset_gpus``  PCI addresses of the GPUs that were reset since the newest SXid.
    ``blind``       probes without an answer, and for how many passes in a row.
    ``returns``     returns of this machine to service by its agent."""

    boot_id: str = ""
    unproven: bool = False
    lost: bool = False
    kmsg_seq: int | None = None
    lost_records: int = 0
    xids: tuple[XidEvent, ...] = ()
    events: tuple[KernelEvent, ...] = ()
    heard_s: float = field(default=0.0, compare=False)
    reset_gpus: tuple[str, ...] = ()
    gpus: Mapping[int, GpuSeen] = field(default_factory=dict)
    ports: Mapping[str, PortSeen] = field(default_factory=dict)
    pci: Mapping[str, PciSeen] = field(default_factory=dict)
    host: HostSeen = field(default_factory=HostSeen)
    blind: Mapping[str, int] = field(default_factory=dict)
    streaks: Mapping[str, Streak] = field(default_factory=dict)
    returns: tuple[Return, ...] = ()

    @property
    def lost_and_empty(self) -> bool:
        """The state was lost, and nothing was tracked since then."""
        return self.lost and not self.boot_id

    @property
    def kmsg(self) -> KmsgFacts:
        return KmsgFacts(
            xids=self.xids,
            lost_records=self.lost_records,
            events=self.events,
            now_s=self.heard_s,
        )


# --- kernel log -----------------------------------------------------------------------------------


def kernel_log_restarted(tracked: TrackedState) -> TrackedState:
    """The kernel log was replaced within one boot: its sequence numbers start from 0 again."""
    return replace(tracked, kmsg_seq=None)


def kernel_log_known(
    tracked: TrackedState, events: Iterable[XidEvent | KernelEvent], seq: int
) -> TrackedState:
    """Skip the kernel log up to ``seq``: its events were handled before the tracked state was lost,
    or the probes will show their effects.
    """
    heard_s = max((event.at_s for event in events), default=tracked.heard_s)
    return replace(tracked, kmsg_seq=seq, heard_s=max(heard_s, tracked.heard_s))


def with_events(
    tracked: TrackedState,
    events: Iterable[XidEvent | KernelEvent],
    *,
    seq: int | None,
    lost: int,
    demand: Demand,
) -> TrackedState:
    """The state with new events; Xids get the index and UUID of their GPU. An Xid 154 "None"
    resolves what a reset clears."""
    xids, others, reset_gpus = list(tracked.xids), [], list(tracked.reset_gpus)
    heard_s = tracked.heard_s
    for event in events:
        heard_s = max(heard_s, event.at_s)
        if isinstance(event, KernelEvent):
            others.append(event)
            reset_gpus = [] if event.kind == "sxid" else reset_gpus
            continue
        if _says_recovered(event):
            xids = [old for old in xids if not _resolved(old, event, demand)]
            reset_gpus.append(event.pci)
        xids.append(join(tracked, event))
        if len(xids) > 2 * MAX_EVENTS:
            xids = _at_most(xids, demand)
    after = replace(
        tracked,
        kmsg_seq=seq if seq is not None else tracked.kmsg_seq,
        lost_records=tracked.lost_records + lost,
        xids=tuple(_at_most(xids, demand)),
        events=kernel.with_events(tracked.events, others, demand),
        heard_s=heard_s,
    )
    return _with_resets(after, reset_gpus, demand)


def _with_resets(tracked: TrackedState, reset_gpus: Iterable[str], demand: Demand) -> TrackedState:
    """Once every GPU was reset since the newest SXid, the SXids that required a reset are resolved."""
    reset = set(reset_gpus)
    known = {gpu.pci for gpu in tracked.gpus.values() if gpu.pci}
    if known and known <= reset:
        events = kernel.all_gpus_reset(tracked.events, demand)
        return replace(tracked, events=events, reset_gpus=())
    return replace(tracked, reset_gpus=tuple(sorted(reset)))


def join(tracked: TrackedState, event: XidEvent) -> XidEvent:
    """The event with index and UUID of its GPU, if they are known."""
    for index, gpu in tracked.gpus.items():
        if gpu.pci == event.pci:
            return replace(event, gpu=index, uuid=gpu.uuid)
    return event


def _says_recovered(event: XidEvent) -> bool:
    """Whether it is an Xid 154 whose new recovery action is none. The number decides; older drivers
    write only the word."""
    if event.xid != 154:
        return False
    if event.recovery_value is not None:
        return event.recovery_value == 0
    return (event.recovery or "").strip().lower() == "none"


def _resolved(old: XidEvent, new: XidEvent, demand: Demand) -> bool:
    return old.pci == new.pci and not lasting(demand(old), SURVIVES_RESET)


def _at_most(xids: list[XidEvent], demand: Demand) -> list[XidEvent]:
    """A healthy node can have thousands of Xid 45: drop the least severe, oldest first."""
    excess = len(xids) - MAX_EVENTS
    if excess <= 0:
        return xids
    order = sorted(range(len(xids)), key=lambda at: (demand(xids[at])[0], at))
    dropped = set(order[:excess])
    return [event for at, event in enumerate(xids) if at not in dropped]


def aged(tracked: TrackedState, uptime_s: float, demand: Demand) -> TrackedState:
    """The state without expired events. ``at_s`` and ``uptime_s`` are of the same clock."""
    xids = tuple(
        event
        for event in tracked.xids
        if uptime_s - event.at_s <= FORGET_S.get(demand(event)[0], float("inf"))
    )
    events = kernel.aged(tracked.events, uptime_s, demand)
    return replace(tracked, xids=xids, events=events, heard_s=max(uptime_s, tracked.heard_s))


# --- GPUs and ports -------------------------------------------------------------------------------


def saw_gpus(
    tracked: TrackedState, nvml: NvmlFacts, demand: Demand, now: float
) -> tuple[TrackedState, NvmlFacts]:
    """The state after this reading, and the reading with identities and deltas filled in. ``now``
    in epoch seconds.
    """
    gpus, facts, xids = dict(tracked.gpus), [], tracked.xids
    reset_gpus = list(tracked.reset_gpus)
    for gpu in nvml.gpus:
        before = gpus.get(gpu.index, GpuSeen())
        if before.uuid and gpu.uuid and before.uuid != gpu.uuid:  # another board in this place
            xids = tuple(event for event in xids if event.uuid != before.uuid)
            before = GpuSeen()
        if tracked_gpu.was_reset(before, gpu):
            uuid = gpu.uuid
            xids = tuple(e for e in xids if e.uuid != uuid or lasting(demand(e), SURVIVES_RESET))
            reset_gpus += [before.pci] if before.pci else []
        gpus[gpu.index], filled = tracked_gpu.track(before, gpu, now)
        facts.append(filled)
    joined = tuple(
        event if event.uuid else join(replace(tracked, gpus=gpus), event) for event in xids
    )
    after = _with_resets(replace(tracked, gpus=gpus, xids=joined), reset_gpus, demand)
    return after, replace(nvml, gpus=tuple(facts))


def saw_ports(
    tracked: TrackedState, ports: Iterable[PortFacts], now: float
) -> tuple[TrackedState, tuple[PortFacts, ...]]:
    """As ``saw_gpus``, for InfiniBand ports."""
    proven = not tracked.unproven
    known, facts = fabric.look_at_ports(tracked.ports, ports, now, same_machine=proven)
    return replace(tracked, ports=known), facts


def saw_pci(
    tracked: TrackedState, devices: Iterable[PcieFacts], now: float
) -> tuple[TrackedState, PciFacts]:
    """As ``saw_gpus``, for PCI devices."""
    proven = not tracked.unproven
    known, facts = fabric.look_at_pci(tracked.pci, devices, now, same_machine=proven)
    return replace(tracked, pci=known), facts


def saw_host(tracked: TrackedState, host: HostFacts, _now: float) -> tuple[TrackedState, HostFacts]:
    """As ``saw_gpus``, for the machine's disks."""
    known, facts = tracked_host.look_at_host(tracked.host, host)
    return replace(tracked, host=known), facts


def saw_system(
    tracked: TrackedState, system: SystemFacts, now: float
) -> tuple[TrackedState, SystemFacts]:
    """As ``saw_gpus``, for services and processes."""
    known, facts = tracked_host.look_at_system(tracked.host, system, now)
    return replace(tracked, host=known), facts


def saw_blind(tracked: TrackedState, looked: Iterable[str], blind: Iterable[str]) -> TrackedState:
    """The state with the number of passes in a row in which each probe gave no answer."""
    passes = dict(tracked.blind)
    for probe in looked:
        passes.pop(probe, None)
    for probe in blind:
        passes[probe] = passes.get(probe, 0) + 1
    return replace(tracked, blind=passes)

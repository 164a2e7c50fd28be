"""What the agent remembers of this node between passes and across its own restarts. Pure: no I/O
here.

Everything is keyed by boot id, GPU UUID and port, so that a rebooted node and a replaced GPU
inherit nothing that does not survive them (law 10).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from holdfast.findings import Finding
from holdfast.vocabulary import Action, Severity
from slurm_hooks.agent import memory_gpu
from slurm_hooks.agent.memory_gpu import GpuSeen
from slurm_hooks.facts import KmsgFacts, NvmlFacts, PortFacts, XidEvent

MAX_EVENTS = 200
FORGET_S = {Severity.INFO: 3600.0, Severity.WARN: 24 * 3600.0}
"""How long an Xid that condemns nothing stays evidence. Fatal ones stay until what they ask for
happened.
"""

FLAP_WINDOW_S = 24 * 3600.0
_SATURATED_LINK_DOWNED = 255
"""The counter has eight bits and stops there: a port that shows it can count no more."""

SURVIVES_RESET = {Action.REBOOT, Action.REPLACE, Action.CONTACT_SUPPORT}
SURVIVES_REBOOT = {Action.REPLACE, Action.CONTACT_SUPPORT}

Demand = Callable[[XidEvent], tuple[Severity, Action]]
"""The fault catalogue's word on an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSeen:
    """A port's past: whether it ever was ACTIVE, its last counter, and when (epoch s) it lost its
    link.
    """

    active: bool = False
    link_downed: int | None = None
    downs_at: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Streak:
    """One finding's way to being open: passes that saw it in a row, or clean ones since."""

    finding: Finding
    seen: int = 0
    clean: int = 0
    open: bool = False
    since: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The whole of it. ``xids`` are events not yet resolved, oldest first."""

    boot_id: str = ""
    kmsg_seq: int | None = None
    lost_records: int = 0
    xids: tuple[XidEvent, ...] = ()
    gpus: Mapping[int, GpuSeen] = field(default_factory=dict)
    ports: Mapping[str, PortSeen] = field(default_factory=dict)
    blind: Mapping[str, int] = field(default_factory=dict)
    streaks: Mapping[str, Streak] = field(default_factory=dict)

    @property
    def kmsg(self) -> KmsgFacts:
        return KmsgFacts(xids=self.xids, lost_records=self.lost_records)


def booted(memory: Memory, boot_id: str, demand: Demand) -> Memory:
    """The memory under this boot id: after a reboot only what no reboot cures is left."""
    if memory.boot_id == boot_id:
        return memory
    kept = tuple(e for e in memory.xids if _lasting(demand(e), SURVIVES_REBOOT))
    streaks = {k: s for k, s in memory.streaks.items() if s.open and _survives_reboot(s.finding)}
    return Memory(
        boot_id=boot_id,
        # Sequence numbers begin anew with each boot.
        xids=tuple(replace(event, seq=-1, at_s=0.0) for event in kept),
        gpus={index: memory_gpu.rebooted(gpu) for index, gpu in memory.gpus.items()},
        ports={name: replace(port, link_downed=None) for name, port in memory.ports.items()},
        streaks=streaks,
    )


def _survives_reboot(finding: Finding) -> bool:
    return finding.action in SURVIVES_REBOOT


def _lasting(demand: tuple[Severity, Action], actions: set[Action]) -> bool:
    severity, action = demand
    return severity is Severity.FATAL and action in actions


# --- kernel log -----------------------------------------------------------------------------------


def log_renewed(memory: Memory) -> Memory:
    """The kernel log began anew within one boot id: its numbers count from the start again."""
    return replace(memory, kmsg_seq=None)


def heard(
    memory: Memory, events: Iterable[XidEvent], *, seq: int | None, lost: int, demand: Demand
) -> Memory:
    """New Xids, joined with the GPUs they name; an Xid 154 "None" resolves what a reset cures."""
    xids = list(memory.xids)
    for event in events:
        xids = [*(old for old in xids if not _resolved(old, event, demand)), join(memory, event)]
    return replace(
        memory,
        kmsg_seq=seq if seq is not None else memory.kmsg_seq,
        lost_records=memory.lost_records + lost,
        xids=tuple(_at_most(xids, demand)),
    )


def join(memory: Memory, event: XidEvent) -> XidEvent:
    """The event with index and UUID of its GPU, as far as they are known."""
    for index, gpu in memory.gpus.items():
        if gpu.pci == event.pci:
            return replace(event, gpu=index, uuid=gpu.uuid)
    return event


def _resolved(old: XidEvent, new: XidEvent, demand: Demand) -> bool:
    over = new.xid == 154 and (new.recovery or "").strip().lower() == "none"
    return over and old.pci == new.pci and not _lasting(demand(old), SURVIVES_RESET)


def _at_most(xids: list[XidEvent], demand: Demand) -> list[XidEvent]:
    """Xid 45 comes by the thousand on a healthy node: drop the least telling, oldest first."""
    excess = len(xids) - MAX_EVENTS
    if excess <= 0:
        return xids
    order = sorted(range(len(xids)), key=lambda at: (demand(xids[at])[0], at))
    dropped = set(order[:excess])
    return [event for at, event in enumerate(xids) if at not in dropped]


def aged(memory: Memory, uptime_s: float, demand: Demand) -> Memory:
    """Without the events that are too old to be evidence. ``at_s`` and ``uptime_s`` share a
    clock.
    """
    kept = tuple(
        event
        for event in memory.xids
        if uptime_s - event.at_s <= FORGET_S.get(demand(event)[0], float("inf"))
    )
    return memory if len(kept) == len(memory.xids) else replace(memory, xids=kept)


def forgiven(memory: Memory) -> Memory:
    """Somebody who may put this node back into service did: past events no longer count."""
    streaks = {key: s for key, s in memory.streaks.items() if not _of_events(s.finding)}
    ports = {name: replace(port, downs_at=()) for name, port in memory.ports.items()}
    gpus = {index: memory_gpu.forgiven(gpu) for index, gpu in memory.gpus.items()}
    return replace(memory, xids=(), streaks=streaks, ports=ports, gpus=gpus, lost_records=0)


def _of_events(finding: Finding) -> bool:
    counted = finding.code in memory_gpu.COUNTED_CODES
    return counted or finding.check in ("gpu_xid", "kmsg") or finding.code == "IB_FLAP"


# --- GPUs and ports -------------------------------------------------------------------------------


def saw_gpus(
    memory: Memory, nvml: NvmlFacts, demand: Demand, now: float
) -> tuple[Memory, NvmlFacts]:
    """The memory with this reading in it, and the reading with identities and deltas filled in.
    ``now`` in epoch seconds.
    """
    gpus, facts, xids = dict(memory.gpus), [], memory.xids
    for gpu in nvml.gpus:
        before = gpus.get(gpu.index, GpuSeen())
        if before.uuid and gpu.uuid and before.uuid != gpu.uuid:  # another board in this place
            xids = tuple(event for event in xids if event.uuid != before.uuid)
            before = GpuSeen()
        if memory_gpu.was_reset(before, gpu):
            uuid = gpu.uuid
            xids = tuple(e for e in xids if e.uuid != uuid or _lasting(demand(e), SURVIVES_RESET))
        gpus[gpu.index], filled = memory_gpu.look(before, gpu, now)
        facts.append(filled)
    joined = tuple(
        event if event.uuid else join(replace(memory, gpus=gpus), event) for event in xids
    )
    return replace(memory, gpus=gpus, xids=joined), replace(nvml, gpus=tuple(facts))


def saw_ports(
    memory: Memory, ports: Iterable[PortFacts], now: float
) -> tuple[Memory, tuple[PortFacts, ...]]:
    """As ``saw_gpus``, for InfiniBand ports. ``now`` in epoch seconds."""
    known, facts = dict(memory.ports), []
    for port in ports:
        before = known.get(port.subject, PortSeen())
        downs = _downs(before, port, now)
        seen = PortSeen(
            active=before.active or port.state == "ACTIVE",
            link_downed=port.link_downed,
            downs_at=downs,
        )
        known[port.subject] = seen
        saturated = port.link_downed is not None and port.link_downed >= _SATURATED_LINK_DOWNED
        unknown = port.link_downed is None or saturated
        ages = None if unknown else tuple(now - at for at in downs)
        facts.append(replace(port, seen_active=seen.active, downs_age_s=ages))
    return replace(memory, ports=known), tuple(facts)


def _downs(before: PortSeen, port: PortFacts, now: float) -> tuple[float, ...]:
    recent = tuple(at for at in before.downs_at if now - at < FLAP_WINDOW_S)
    if port.link_downed is None or before.link_downed is None:
        return recent  # no baseline: nothing can be called new
    new = port.link_downed - before.link_downed  # below 0: the driver was loaded anew
    return recent + (now,) * min(max(0, new), 20)


def saw_blind(memory: Memory, looked: Iterable[str], blind: Iterable[str]) -> Memory:
    """Counts the passes in a row in which a probe gave no answer."""
    passes = dict(memory.blind)
    for probe in looked:
        passes.pop(probe, None)
    for probe in blind:
        passes[probe] = passes.get(probe, 0) + 1
    return replace(memory, blind=passes)

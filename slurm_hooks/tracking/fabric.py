"""The tracked state of InfiniBand ports and PCI devices. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from slurm_hooks.facts import PcieFacts, PciFacts, PciKind, PortDeltas, PortFacts
from slurm_hooks.tracking.counters import Counter, advance

FLAP_WINDOW_S = 24 * 3600.0
BER_WINDOW_S = 125 * 60.0
"""How long a link must have carried data before its bit error rate is meaningful (NVIDIA's bring-up
guide: at 400 Gb/s one error in that time is 3e-16).
"""
RATE_WINDOW_S = 600.0

_FULL: Mapping[str, int] = {
    "link_downed": 255,
    "link_error_recovery": 255,
    "symbol_error": 65535,
    "port_rcv_errors": 65535,
    "port_xmit_discards": 65535,
    "local_link_integrity_errors": 15,
    "excessive_buffer_overrun_errors": 15,
}
"""The value at which each counter saturates (InfiniBand specification, PortCounters: 4, 8 and 16
bits). A larger value comes from the wider counters of newer firmware."""

_WINDOWS_S: Mapping[str, float] = {
    "symbol_error": BER_WINDOW_S,
    "link_error_recovery": RATE_WINDOW_S,
    "port_rcv_errors": RATE_WINDOW_S,
    "port_xmit_discards": RATE_WINDOW_S,
    "local_link_integrity_errors": 0.0,
    "excessive_buffer_overrun_errors": 0.0,
}

COUNTED_CODES = frozenset(
    {"IB_FLAP", "IB_BER", "IB_ERRORS", "IB_RATE", "PCIE_AER_FATAL", "PCIE_AER"}
)
"""Findings based on earlier counts: they end when a person resumes the node."""
MISSED_CODES = frozenset({"IB_MISSING", "NVSWITCH_GONE", "PCI_GPU_GONE"})
"""Findings about devices that were there before: they end when a person resumes the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSeen:
    """A port's earlier state: whether it ever was ACTIVE, its last counters, and when (epoch s) it
    lost its link. ``here``: seen in this boot, else only before it. ``guid`` and ``link_layer``: as
    last reported.
    """

    active: bool = False
    link_downed: int | None = None
    downs_at: tuple[float, ...] = ()
    best_gbps: float | None = None
    guid: str = ""
    link_layer: str = ""
    here: bool = False
    counters: Mapping[str, Counter] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PciSeen:
    """A PCI device. ``here``: seen in this boot, else only before it."""

    kind: PciKind
    here: bool = True
    counters: Mapping[str, Counter] = field(default_factory=dict)


def is_full(name: str, value: int | None) -> bool:
    return value is not None and value == _FULL.get(name)


# --- ports ----------------------------------------------------------------------------------------


def look_at_ports(
    known: Mapping[str, PortSeen],
    ports: Iterable[PortFacts],
    now: float,
    *,
    same_machine: bool = True,
) -> tuple[dict[str, PortSeen], tuple[PortFacts, ...]]:
    """The tracked ports after this reading, and the reading with their earlier state and with the
    missing ports. ``now`` in epoch seconds. ``same_machine`` False: not known yet to be the machine
    from before the boot, so ports from before the boot do not count as missing.
    """
    ports = list(ports)
    seen, facts = _without_renamed_ports(known, ports), []
    for port in ports:
        after = _seen(known.get(port.subject, PortSeen()), port, now)
        seen[port.subject] = after
        facts.append(_filled(port, after, now))
    # A GUID is the card's own, whatever name the driver gives it at this boot.
    names = {port.guid: port.device for port in facts if port.guid}
    there = {port.subject for port in facts}
    facts += [
        _missing(subject, port, names)
        for subject, port in seen.items()
        if (port.here or same_machine) and subject not in there
    ]
    return seen, tuple(facts)


def _without_renamed_ports(
    known: Mapping[str, PortSeen], ports: Sequence[PortFacts]
) -> dict[str, PortSeen]:
    fresh = [port for port in ports if port.subject not in known]
    guids, there = {port.guid for port in fresh}, {port.subject for port in ports}
    old = [(name, port.link_layer) for name, port in known.items() if not port.here]
    # First the cards that are certainly here under another name, then those that may be missing.
    old.sort(key=lambda item: known[item[0]].guid not in guids)
    left = [item for item in old if item[0] not in there]
    renamed = _renamed(left, [port.link_layer for port in fresh])
    return {name: port for name, port in known.items() if name not in renamed}


def _renamed(old: Iterable[tuple[str, str]], fresh: list[str]) -> set[str]:
    """The entries of ``old`` (name and kind) that have a new name now. ``fresh``: the kinds of the
    devices with new names. Names and addresses may change at each boot.
    """
    renamed = set()
    for name, kind in old:
        if kind in fresh:
            fresh.remove(kind)
            renamed.add(name)
    return renamed


def port_rebooted(port: PortSeen) -> PortSeen:
    """What is kept of a port after a reboot: that it was there, and its best state."""
    return replace(port, link_downed=None, here=False, counters={})


def ports_acknowledged(
    known: Mapping[str, PortSeen], facts: Iterable[PortFacts]
) -> dict[str, PortSeen]:
    """After a person resumed the node: errors so far no longer count, and ports that are missing in
    ``facts`` are accepted."""
    # Who resumes a node without them has decided that it works without them.
    missed = {port.subject for port in facts if not port.present}
    return {
        name: replace(port, downs_at=(), best_gbps=None, counters={})
        for name, port in known.items()
        if name not in missed
    }


def _seen(before: PortSeen, port: PortFacts, now: float) -> PortSeen:
    active = port.state == "ACTIVE"
    rates = [rate for rate in (before.best_gbps, port.rate_gbps if active else None) if rate]
    return PortSeen(
        active=before.active or active,
        link_downed=port.link_downed,
        downs_at=_downs(before, port, now),
        best_gbps=max(rates, default=None),
        guid=port.guid or before.guid,
        link_layer=port.link_layer or before.link_layer,
        here=True,
        counters={
            name: _advance(before.counters.get(name), name, port.counters.get(name), now)
            for name in _WINDOWS_S
        },
    )


def _advance(before: Counter | None, name: str, value: int | None, now: float) -> Counter:
    full = _FULL[name] if is_full(name, value) else None
    return advance(before, value, now, saturates_at=full, keep_s=_WINDOWS_S[name])


def _downs(before: PortSeen, port: PortFacts, now: float) -> tuple[float, ...]:
    recent = tuple(at for at in before.downs_at if now - at < FLAP_WINDOW_S)
    if port.link_downed is None or before.link_downed is None:
        return recent  # no baseline, so nothing is new
    new = port.link_downed - before.link_downed  # below 0: the driver was loaded again
    # A counter that jumps by thousands tells nothing more, and each entry is in the state file.
    return recent + (now,) * min(max(0, new), 20)


def _filled(port: PortFacts, seen: PortSeen, now: float) -> PortFacts:
    unknown = port.link_downed is None or is_full("link_downed", port.link_downed)
    ages = None if unknown else tuple(now - at for at in seen.downs_at)
    return replace(
        port,
        link_layer=seen.link_layer,
        seen_active=seen.active,
        downs_age_s=ages,
        best_gbps=seen.best_gbps,
        deltas=_news(seen.counters, port.rate_gbps),
    )


def _news(counters: Mapping[str, Counter], rate_gbps: float | None) -> PortDeltas:
    def per_s(name: str) -> float | None:
        return _least_rate(counters[name], RATE_WINDOW_S)

    errors = _least_rate(counters["symbol_error"], BER_WINDOW_S)
    recoveries = per_s("link_error_recovery")
    return PortDeltas(
        symbol_ber=errors / (rate_gbps * 1e9) if errors is not None and rate_gbps else None,
        integrity=counters["local_link_integrity_errors"].new,
        overruns=counters["excessive_buffer_overrun_errors"].new,
        recoveries_per_min=None if recoveries is None else recoveries * 60,
        receive_errors_per_s=per_s("port_rcv_errors"),
        discards_per_s=per_s("port_xmit_discards"),
    )


def _least_rate(counter: Counter, window_s: float) -> float | None:
    """The rate over the window. If the counter was followed for a shorter time, the least that the
    rate can be: the growth so far, over the whole window.
    """
    rate = counter.rate_per_s(window_s)
    if rate is not None or counter.new is None:
        return rate
    return counter.new / window_s


def _missing(subject: str, port: PortSeen, names: Mapping[str, str]) -> PortFacts:
    device, _, number = subject.rpartition("/")
    return PortFacts(
        device=device,
        port=int(number),
        state="",
        link_layer=port.link_layer,
        seen_active=port.active,
        guid=port.guid,
        present=False,
        before_boot=not port.here,
        now_called=names.get(port.guid, "") if port.guid else "",
    )


# --- PCI ------------------------------------------------------------------------------------------


def look_at_pci(
    known: Mapping[str, PciSeen],
    devices: Iterable[PcieFacts],
    now: float,
    *,
    same_machine: bool = True,
) -> tuple[dict[str, PciSeen], PciFacts]:
    """As ``look_at_ports``, for the devices on the PCI bus."""
    devices = list(devices)
    seen, facts = _without_moved_devices(known, devices), []
    for device in devices:
        before = known.get(device.pci)
        # Another device took the address: its counters are not those of the old one.
        if before is not None and before.kind is not device.kind:
            before = None
        counters = dict(_aer(before.counters if before else {}, device, now))
        seen[device.pci] = PciSeen(kind=device.kind, counters=counters)
        rate = _least_rate(counters["correctable"], RATE_WINDOW_S)
        filled = replace(
            device,
            correctable_per_min=None if rate is None else rate * 60,
            nonfatal_new=counters["nonfatal"].new,
            fatal_new=counters["fatal"].new,
        )
        facts.append(filled)
    there = {device.pci for device in facts}
    missed = {
        pci: was for pci, was in seen.items() if pci not in there and (was.here or same_machine)
    }
    gone = tuple((was.kind, pci) for pci, was in missed.items())
    before_boot = frozenset(pci for pci, was in missed.items() if not was.here)
    return seen, PciFacts(devices=tuple(facts), gone=gone, before_boot=before_boot)


def _without_moved_devices(
    known: Mapping[str, PciSeen], devices: Sequence[PcieFacts]
) -> dict[str, PciSeen]:
    there = {device.pci for device in devices}
    old = [(p, was.kind.value) for p, was in known.items() if not was.here and p not in there]
    moved = _renamed(old, [device.kind.value for device in devices if device.pci not in known])
    return {pci: was for pci, was in known.items() if pci not in moved}


def _aer(
    before: Mapping[str, Counter], device: PcieFacts, now: float
) -> Iterator[tuple[str, Counter]]:
    for name, keep_s in (("correctable", RATE_WINDOW_S), ("nonfatal", 0.0), ("fatal", 0.0)):
        yield name, advance(before.get(name), getattr(device, name), now, keep_s=keep_s)


def pci_rebooted(device: PciSeen) -> PciSeen:
    """What is kept of a device after a reboot: that it was there."""
    return PciSeen(kind=device.kind, here=False)


def pci_acknowledged(known: Mapping[str, PciSeen], facts: PciFacts | None) -> dict[str, PciSeen]:
    """As ``ports_acknowledged``."""
    gone = {pci for _, pci in facts.gone} if facts else set()
    return {pci: replace(was, counters={}) for pci, was in known.items() if pci not in gone}

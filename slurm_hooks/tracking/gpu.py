"""The tracked state of each GPU: its identity and its earlier counter values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from slurm_hooks.facts import GpuDeltas, GpuFacts
from slurm_hooks.tracking.counters import Counter, advance, rebased

HOUR_S, MINUTE_S, TEN_MINUTES_S = 3600.0, 60.0, 600.0

_WINDOWS_S: Mapping[str, float] = {
    "uncorrected": 0.0,
    "link_replays": HOUR_S,
    "link_recoveries": HOUR_S,
    "link_crc_errors": MINUTE_S,
    "pcie_replays": MINUTE_S,
    "thermal_violation_ns": TEN_MINUTES_S,
    "hw_thermal_slowdown_ns": TEN_MINUTES_S,
    "hw_power_brake_slowdown_ns": TEN_MINUTES_S,
}
"""Every tracked counter, and the longest window over which it is judged (sources: DCGM per hour,
PCIe per minute, gpud's slowdown over ten minutes).
"""

_FABRIC_PENDING = (1, 2)
"""NVML_GPU_FABRIC_STATE_NOT_STARTED, …_IN_PROGRESS."""

COUNTED_CODES = frozenset({"ECC_UNCORRECTED", "NVLINK_ERRORS", "PCIE_REPLAYS"})
"""Findings based on counters since a baseline: they end when a person resumes the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSeen:
    """A GPU as it last answered.

    ``counters``: by their names in GpuFacts; for links the sum over all links. ``link_errors``: per
    link, the errors up to the baseline. ``fabric_since``: since when (epoch s) its fabric is not
    ready. None if it is ready.
    """

    uuid: str | None = None
    pci: str | None = None
    name: str | None = None
    serial: str | None = None
    recovery_action: int | None = None
    counters: Mapping[str, Counter] = field(default_factory=dict)
    link_errors: tuple[int, ...] = ()
    fabric_since: float | None = None

    def total(self, name: str) -> int | None:
        """A counter's last value."""
        counter = self.counters.get(name)
        return counter.value if counter else None


def track(before: GpuSeen, gpu: GpuFacts, now: float) -> tuple[GpuSeen, GpuFacts]:
    """The tracked GPU after this reading, and the reading with identity and deltas filled in.
    ``now`` in epoch seconds.
    """
    errors = _errors_of_links(gpu)
    seen = GpuSeen(
        uuid=gpu.uuid or before.uuid,
        pci=gpu.pci or before.pci,
        name=gpu.name or before.name,
        serial=gpu.serial or before.serial,
        recovery_action=_newest(gpu.recovery_action, before.recovery_action),
        counters=_counted(before.counters, gpu, now),
        link_errors=_link_baseline(before.link_errors, errors),
        fabric_since=_fabric_since(before.fabric_since, gpu, now),
    )
    filled = replace(
        gpu,
        uuid=seen.uuid,
        pci=seen.pci,
        name=seen.name,
        serial=seen.serial,
        uncorrected_new=_new(seen, "uncorrected"),
        deltas=_news(seen, gpu, errors, now),
    )
    return seen, filled


def was_reset(before: GpuSeen, gpu: GpuFacts) -> bool:
    """Evidence of a reset: the driver no longer requires one, or volatile counters fell."""
    no_longer_required = bool(before.recovery_action) and gpu.recovery_action == 0
    last = before.total("uncorrected")
    return no_longer_required or (
        last is not None and gpu.uncorrected is not None and gpu.uncorrected < last
    )


def recovered(gpu: GpuFacts, *, state_lost: bool) -> bool:
    """Whether it answers and requires no action. If the driver does not report the required action,
    the tracked events count; if these were lost (``state_lost``), the GPU does not count as
    recovered.
    """
    unknown = gpu.recovery_action is None and state_lost
    return gpu.answers and not gpu.recovery_action and not unknown


def rebooted(seen: GpuSeen) -> GpuSeen:
    """What is kept after a reboot: the GPU's identity."""
    return GpuSeen(uuid=seen.uuid, pci=seen.pci, name=seen.name, serial=seen.serial)


def acknowledged(seen: GpuSeen) -> GpuSeen:
    """After a person resumed the node: errors so far no longer count."""
    counters = {name: rebased(counter) for name, counter in seen.counters.items()}
    return replace(seen, counters=counters, link_errors=())


def _newest(value: int | None, before: int | None) -> int | None:
    return before if value is None else value


# --- counters -------------------------------------------------------------------------------------


def _counted(before: Mapping[str, Counter], gpu: GpuFacts, now: float) -> Mapping[str, Counter]:
    values = {
        "uncorrected": gpu.uncorrected,
        "link_replays": _total(gpu.link_replays),
        "link_recoveries": _total(gpu.link_recoveries),
        "link_crc_errors": _total(gpu.link_crc_errors),
        "pcie_replays": gpu.pcie_replays,
        "thermal_violation_ns": gpu.thermal_violation_ns,
        "hw_thermal_slowdown_ns": gpu.hw_thermal_slowdown_ns,
        "hw_power_brake_slowdown_ns": gpu.hw_power_brake_slowdown_ns,
    }
    after = {
        name: advance(before.get(name), values[name], now, keep_s=keep_s)
        for name, keep_s in _WINDOWS_S.items()
        if name in before or values[name] is not None
    }
    # The same object if nothing changed, which makes comparing tracked states fast.
    return before if after == before else after


def _total(values: tuple[int, ...] | None) -> int | None:
    return None if values is None else sum(values)


def _new(seen: GpuSeen, name: str) -> int | None:
    counter = seen.counters.get(name)
    return counter.new if counter else None


def _news(seen: GpuSeen, gpu: GpuFacts, errors: tuple[int, ...], now: float) -> GpuDeltas:
    pcie_per_s = _rate(seen, "pcie_replays", MINUTE_S)
    # Slowdown of a hot GPU by software is normal under load and is not judged.
    heat = (
        "thermal_violation_ns" if gpu.hw_thermal_slowdown_ns is None else "hw_thermal_slowdown_ns"
    )
    heat_ns_per_s = _rate(seen, heat, TEN_MINUTES_S)
    brake_ns = _lately(seen, "hw_power_brake_slowdown_ns", TEN_MINUTES_S)
    pending = None
    if gpu.fabric is not None:
        pending = now - seen.fabric_since if seen.fabric_since is not None else 0.0
    return GpuDeltas(
        link_replays=_lately(seen, "link_replays", HOUR_S),
        link_recoveries=_lately(seen, "link_recoveries", HOUR_S),
        link_crc_per_s=_rate(seen, "link_crc_errors", MINUTE_S),
        bad_links=tuple(
            link
            for link, (count, base) in enumerate(zip(errors, seen.link_errors, strict=False))
            if count > base
        ),
        pcie_replays_per_min=None if pcie_per_s is None else pcie_per_s * 60,
        thermal_share=None if heat_ns_per_s is None else min(1.0, heat_ns_per_s / 1e9),
        brake_share=None if brake_ns is None else min(1.0, brake_ns / (TEN_MINUTES_S * 1e9)),
        fabric_pending_s=pending,
    )


def _rate(seen: GpuSeen, name: str, window_s: float) -> float | None:
    counter = seen.counters.get(name)
    return counter.rate_per_s(window_s) if counter else None


def _lately(seen: GpuSeen, name: str, window_s: float) -> int | None:
    """Growth in the window, or since the baseline if that is more recent."""
    counter = seen.counters.get(name)
    if counter is None:
        return None
    lately = counter.new_in(window_s)
    return counter.new if lately is None else lately


# --- links and fabric -----------------------------------------------------------------------------


def _errors_of_links(gpu: GpuFacts) -> tuple[int, ...]:
    """Per link, the sum of replays, recoveries and CRC errors."""
    kinds = [gpu.link_replays, gpu.link_recoveries, gpu.link_crc_errors]
    known = [counts for counts in kinds if counts is not None]
    return tuple(sum(counts) for counts in zip(*known, strict=False))


def _link_baseline(before: tuple[int, ...], errors: tuple[int, ...]) -> tuple[int, ...]:
    if not errors:  # not reported: the baseline stays
        return before
    if len(before) != len(errors):
        return errors
    return tuple(min(old, now) for old, now in zip(before, errors, strict=True))


def _fabric_since(before: float | None, gpu: GpuFacts, now: float) -> float | None:
    if gpu.fabric is None:
        return before
    if gpu.fabric.state not in _FABRIC_PENDING:
        return None
    return now if before is None else min(before, now)

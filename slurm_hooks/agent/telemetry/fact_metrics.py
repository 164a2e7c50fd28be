"""The probes' values as metrics. Pure.

Only the values on which Holdfast's own checks are based; dcgm-exporter and node_exporter have the
full range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from slurm_hooks.agent.telemetry.exposition import Family, Sample, counter, gauge
from slurm_hooks.facts import GpuFacts, MountState, NodeFacts

_NS = 1e-9


def of_facts(facts: NodeFacts) -> Iterator[Family]:
    """The families of one moment; a value that was not read has no sample."""
    yield from _gpus(facts.gpus)
    yield from _ports(facts)
    yield from _mounts(facts)
    kmsg = facts.kmsg
    yield counter(
        "kernel_log_lost_records_total",
        "Kernel log records of this boot that were lost before they could be read.",
        [Sample(kmsg.lost_records)] if kmsg else [],
    )
    yield gauge(
        "clock_skew_seconds",
        "This node's clock minus slurmctld's.",
        [Sample(facts.clock.skew_s)] if facts.clock else [],
    )


def _gpus(gpus: tuple[GpuFacts, ...]) -> Iterator[Family]:
    def each(value: Callable[[GpuFacts], float | bool | None]) -> Iterator[Sample]:
        for gpu in gpus:
            known = value(gpu)
            if known is not None:
                yield Sample(float(known), {"gpu": str(gpu.index), "gpu_uuid": gpu.uuid or ""})

    yield gauge(
        "gpu_up",
        "Whether the GPU answers: not lost, and not in need of a reset.",
        each(lambda gpu: gpu.answers),
    )
    yield gauge("gpu_temperature_celsius", "GPU temperature.", each(lambda gpu: gpu.temperature_c))
    yield gauge(
        "gpu_thermal_margin_celsius",
        "Degrees below the temperature at which the GPU slows down.",
        each(lambda gpu: gpu.thermal_margin_c),
    )
    yield gauge(
        "gpu_ecc_uncorrected_errors",
        "Volatile uncorrected ECC errors since boot or the last reset of the GPU.",
        each(lambda gpu: gpu.uncorrected),
    )
    yield gauge(
        "gpu_row_remap_pending",
        "Whether memory rows will be remapped at the next reset.",
        each(lambda gpu: gpu.remap_pending),
    )
    yield gauge(
        "gpu_recovery_action",
        "Recovery action that the driver requires (NVML field 230): 0 none, 1 GPU reset, 2 reboot, "
        "3 drain P2P, 4 drain and reset.",
        each(lambda gpu: gpu.recovery_action),
    )
    yield gauge(
        "gpu_nvlinks_active",
        "NVLinks that are up.",
        each(lambda gpu: None if gpu.nvlinks is None else sum(gpu.nvlinks)),
    )
    yield counter(
        "gpu_thermal_violation_seconds_total",
        "How long the GPU's clocks were reduced because of heat (NVML field 75).",
        each(lambda gpu: _seconds(gpu.thermal_violation_ns)),
    )
    yield counter(
        "gpu_sw_thermal_slowdown_seconds_total",
        "Part of thermal_violation: software thermal slowdown (NVML field 269).",
        each(lambda gpu: _seconds(gpu.sw_thermal_slowdown_ns)),
    )
    yield counter(
        "gpu_hw_thermal_slowdown_seconds_total",
        "Part of thermal_violation: hardware thermal slowdown (NVML field 270).",
        each(lambda gpu: _seconds(gpu.hw_thermal_slowdown_ns)),
    )
    yield counter(
        "gpu_hw_power_brake_slowdown_seconds_total",
        "How long the GPU's clocks were reduced by the power brake (NVML field 271).",
        each(lambda gpu: _seconds(gpu.hw_power_brake_slowdown_ns)),
    )


def _seconds(reduced_ns: int | None) -> float | None:
    return None if reduced_ns is None else reduced_ns * _NS


def _ports(facts: NodeFacts) -> Iterator[Family]:
    ports = facts.ports or ()
    named = [(port, {"device": port.device, "port": str(port.port)}) for port in ports]
    yield gauge(
        "infiniband_port_active",
        "Whether the port's logical state is ACTIVE.",
        [Sample(float(port.state == "ACTIVE"), labels) for port, labels in named],
    )
    yield counter(
        "infiniband_link_downed_total",
        "Times the port lost its link; the card's counter stops at 255.",
        [Sample(p.link_downed, labels) for p, labels in named if p.link_downed is not None],
    )


def _mounts(facts: NodeFacts) -> Iterator[Family]:
    named = [(mount, {"path": mount.path}) for mount in facts.mounts or ()]
    yield gauge(
        "mount_up",
        "Whether a small write, read and remove succeeded on the mount.",
        [Sample(float(mount.state is MountState.OK), labels) for mount, labels in named],
    )
    yield gauge(
        "mount_latency_seconds",
        "How long a small write, read and remove took on the mount.",
        _known((mount.latency_s, labels) for mount, labels in named),
    )
    yield gauge(
        "mount_free_bytes",
        "Free bytes on the mount.",
        _known((mount.free_bytes, labels) for mount, labels in named),
    )


def _known(pairs: Iterable[tuple[float | None, dict[str, str]]]) -> Iterator[Sample]:
    return (Sample(value, labels) for value, labels in pairs if value is not None)

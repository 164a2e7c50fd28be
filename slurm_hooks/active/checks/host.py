"""The node itself: hardware, kernel modules, PCIe, network, and every probe of the agent once.

The findings are those of ``holdfast check``. Before a node returns to service, findings of checks in
mode observe are shown and do not count (rule 5). In an inspection they count, because it drains no
node.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.config.bounds import within
from holdfast.faults import fault_of
from holdfast.own_program import own_program
from slurm_hooks.active import ActiveCheck
from slurm_hooks.active.program import Node, Ran, unfinished
from slurm_hooks.active.result import (
    CheckOutcome,
    Judged,
    Measurement,
    could_not_run,
    judged_by,
    one_line,
)

_SHOWN = ("nvidia", "nvidia_uvm", "nvidia_peermem", "gdrdrv", "ib_core", "ib_uverbs", "mlx5_core")
_SECTIONS = (
    ("pcie", "PCIe"),
    ("infiniband", "network"),
    ("ib_", "network"),
    ("mounts", "storage"),
    ("gpu", "GPUs"),
)
_NOT_THIS_NODE = {"clock"}
"""Checks that are blind without a fault of this node: slurmctld may be down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the node must have, beside what its checks judge."""

    time_limit_s: float = 120.0
    """Time limit. A program that takes longer has failed."""
    modules: tuple[str, ...] = ("nvidia",)
    """Kernel modules that must be loaded. Only on nodes with GPUs."""
    min_cpus: int = 0
    """Least number of CPUs online. 0: not judged."""
    min_memory_gib: float = 0.0
    """Least memory that the kernel sees, in GiB. 0: not judged."""

    def __post_init__(self) -> None:
        within(self, time_limit_s=(5, 86400), min_cpus=(0, 1 << 16), min_memory_gib=(0, 1 << 20))


def time_limit_s(limits: Limits, level: int) -> float:  # noqa: ARG001 - as every check
    return limits.time_limit_s


def command(node: Node, limits: Limits, level: int) -> list[str]:  # noqa: ARG001
    return own_program("slurm_hooks.active.programs.host", "--config", str(node.config))


def read(ran: Ran, node: Node, limits: Limits, level: int) -> Judged:  # noqa: ARG001
    early = unfinished(ran, "the host check")
    if early is not None:
        return early
    try:
        report = json.loads(ran.out)
        readings = [
            *_hardware(report["hardware"], limits),
            *_pci(report["pci"], node.gpus),
            *_modules(report["modules"], limits if node.gpus else Limits(modules=())),
            *_interfaces(report["interfaces"]),
        ]
        rows = report["checks"]
    except (ValueError, KeyError, TypeError):
        return could_not_run(f"exit status {ran.status}: {one_line(ran.err or ran.out)}")
    if not isinstance(rows, list):
        return could_not_run(f"the probes could not run: {rows}", readings)
    probed = [_probe(row, for_return=node.for_return) for row in rows]
    readings += probed
    judged = judged_by(
        readings, passed=f"{sum(reading.ok is True for reading in probed)} probe readings OK"
    )
    blind = sorted(
        {str(row["check"]) for row in rows if row["verdict"] == "blind"} - _NOT_THIS_NODE
    )
    if judged.verdict is CheckOutcome.PASSED and blind:
        return could_not_run(f"no answer from probes of: {', '.join(blind)}", readings)
    return judged


def _hardware(values: Mapping[str, Any], limits: Limits) -> Iterator[Measurement]:
    cpus, memory_gib = int(values["cpus"]), values["memory_bytes"] / (1 << 30)
    yield Measurement(
        section="hardware",
        subject="CPUs online",
        value=f"{cpus} {values['cpu_model']}".strip(),
        limit=f">= {limits.min_cpus}" if limits.min_cpus else "-",
        ok=cpus >= limits.min_cpus if limits.min_cpus else None,
    )
    yield Measurement(
        section="hardware",
        subject="memory",
        value=f"{memory_gib:.0f} GiB",
        limit=f">= {limits.min_memory_gib:g} GiB" if limits.min_memory_gib else "-",
        ok=memory_gib >= limits.min_memory_gib if limits.min_memory_gib else None,
    )
    up = f"{values['kernel']}, up {values['uptime_s'] / 3600:.1f} h"
    yield Measurement(section="hardware", subject="kernel", value=up)


def _pci(devices: list[Mapping[str, str]], expected_gpus: int) -> Iterator[Measurement]:
    gpus = [device for device in devices if device["kind"] == "gpu"]
    yield Measurement(
        section="hardware",
        subject="NVIDIA GPUs on the PCI bus",
        value=str(len(gpus)),
        limit=str(expected_gpus),
        ok=len(gpus) == expected_gpus,
    )
    for device in devices:
        width, most = device["current_link_width"], device["max_link_width"]
        known = width.isdigit() and most.isdigit()
        yield Measurement(
            section="PCIe",
            subject=f"{device['kind']} {device['address']}",
            value=f"x{width or '?'} at {device['current_link_speed'] or '?'}",
            limit=f"x{most} at up to {device['max_link_speed'] or '?'}" if most else "-",
            # An idle link lowers its speed to save power, never its width.
            ok=int(width) >= int(most) if known else None,
        )


def _modules(loaded: list[str] | None, limits: Limits) -> Iterator[Measurement]:
    if loaded is None:
        yield Measurement(section="kernel modules", subject="all", value="unknown")
        return
    for name in dict.fromkeys((*limits.modules, *_SHOWN)):
        required, is_loaded = name in limits.modules, name in loaded
        yield Measurement(
            section="kernel modules",
            subject=name,
            value="loaded" if is_loaded else "not loaded",
            limit="loaded" if required else "-",
            ok=is_loaded if required else None,
        )


def _interfaces(interfaces: list[Mapping[str, str]]) -> Iterator[Measurement]:
    for interface in interfaces:
        speed = f", {interface['speed']} Mb/s" if interface["speed"].isdigit() else ""
        changes = interface["carrier_changes"] or "?"
        value = f"{interface['operstate'] or '?'}{speed}, {changes} carrier changes"
        yield Measurement(section="network", subject=interface["name"], value=value)


def _probe(row: Mapping[str, Any], *, for_return: bool) -> Measurement:
    check, verdict = str(row["check"]), str(row["verdict"])
    section = next((title for start, title in _SECTIONS if check.startswith(start)), "host")
    code = str(row.get("remedy") or "").partition(":")[0]
    bad = verdict == "fatal" or (verdict == "warn" and fault_of(code).drains)
    ok: bool | None = True if verdict in ("ok", "info") else (False if bad else None)
    value = str(row["value"]) if ok else f"{verdict}: {row['value']}"
    if ok is False and for_return and row.get("mode") not in ("drain", "comment"):
        ok, value = None, f"{value} (check in mode {row.get('mode')})"
    return Measurement(
        section=section,
        subject=f"{check} {row['subject']}".removesuffix(" -"),
        value=value,
        limit=str(row["limit"]),
        ok=ok,
    )


CHECK = ActiveCheck(
    needs="only Holdfast",
    limits=Limits,
    time_limit_s=time_limit_s,
    command=command,
    read=read,
)

"""The node itself: hardware, kernel modules, PCIe, network, and every probe of the agent once.

The probes' findings are those of ``holdfast check``. Before a node is given back, what a check in mode
observe finds is shown and does not count (law 5); in an inspection it does, as nobody is drained
for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.config.bounds import within
from holdfast.faults import fault_of
from slurm_hooks.active import ActiveCheck
from slurm_hooks.active.result import Judged, Reading, Verdict, could_not_run, judged_by, one_line
from slurm_hooks.active.run import Node, Ran, own_program, unfinished

_SHOWN = ("nvidia", "nvidia_uvm", "nvidia_peermem", "gdrdrv", "ib_core", "ib_uverbs", "mlx5_core")
_SECTIONS = (
    ("pcie", "PCIe"),
    ("infiniband", "network"),
    ("ib_", "network"),
    ("mounts", "storage"),
    ("gpu", "GPUs"),
)
_TOLD_ELSEWHERE = {"clock"}
"""Blindness that says nothing about this node: slurmctld's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the node must have beside what its probes judge."""

    time_limit_s: float = 120.0
    """A program that takes longer has failed."""
    modules: tuple[str, ...] = ("nvidia",)
    """Kernel modules that must be loaded; on nodes with GPUs only."""
    min_cpus: int = 0
    """CPUs that the kernel must have online. 0: not judged."""
    min_memory_gib: float = 0.0
    """Memory that the kernel must see, in GiB. 0: not judged."""

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
        said = json.loads(ran.out)
        readings = [
            *_hardware(said["hardware"], limits),
            *_pci(said["pci"], node.gpus),
            *_modules(said["modules"], limits if node.gpus else Limits(modules=())),
            *_interfaces(said["interfaces"]),
        ]
        rows = said["checks"]
    except (ValueError, KeyError, TypeError):
        return could_not_run(f"it ended with {ran.status}: {one_line(ran.err or ran.out)}")
    if not isinstance(rows, list):
        return could_not_run(f"the probes could not look: {rows}", readings)
    probed = [_probe(row, for_gate=node.for_gate) for row in rows]
    readings += probed
    judged = judged_by(
        readings, passed=f"{sum(one.ok is True for one in probed)} probe readings in order"
    )
    blind = sorted(
        {str(row["check"]) for row in rows if row["verdict"] == "blind"} - _TOLD_ELSEWHERE
    )
    if judged.verdict is Verdict.PASSED and blind:
        return could_not_run(f"cannot look: {', '.join(blind)}", readings)
    return judged


def _hardware(said: Mapping[str, Any], limits: Limits) -> Iterator[Reading]:
    cpus, memory_gib = int(said["cpus"]), said["memory_bytes"] / (1 << 30)
    yield Reading(
        section="hardware",
        subject="CPUs online",
        value=f"{cpus} {said['cpu_model']}".strip(),
        limit=f">= {limits.min_cpus}" if limits.min_cpus else "-",
        ok=cpus >= limits.min_cpus if limits.min_cpus else None,
    )
    yield Reading(
        section="hardware",
        subject="memory",
        value=f"{memory_gib:.0f} GiB",
        limit=f">= {limits.min_memory_gib:g} GiB" if limits.min_memory_gib else "-",
        ok=memory_gib >= limits.min_memory_gib if limits.min_memory_gib else None,
    )
    up = f"{said['kernel']}, up {said['uptime_s'] / 3600:.1f} h"
    yield Reading(section="hardware", subject="kernel", value=up)


def _pci(said: list[Mapping[str, str]], expected_gpus: int) -> Iterator[Reading]:
    gpus = [one for one in said if one["kind"] == "gpu"]
    yield Reading(
        section="hardware",
        subject="NVIDIA GPUs on the PCI bus",
        value=str(len(gpus)),
        limit=str(expected_gpus),
        ok=len(gpus) == expected_gpus,
    )
    for one in said:
        width, most = one["current_link_width"], one["max_link_width"]
        known = width.isdigit() and most.isdigit()
        yield Reading(
            section="PCIe",
            subject=f"{one['kind']} {one['address']}",
            value=f"x{width or '?'} at {one['current_link_speed'] or '?'}",
            limit=f"x{most} at up to {one['max_link_speed'] or '?'}" if most else "-",
            # An idle link slows down to save power; its width does not change.
            ok=int(width) >= int(most) if known else None,
        )


def _modules(loaded: list[str] | None, limits: Limits) -> Iterator[Reading]:
    if loaded is None:
        yield Reading(section="kernel modules", subject="all", value="cannot look")
        return
    for name in dict.fromkeys((*limits.modules, *_SHOWN)):
        wanted, there = name in limits.modules, name in loaded
        yield Reading(
            section="kernel modules",
            subject=name,
            value="loaded" if there else "not loaded",
            limit="loaded" if wanted else "-",
            ok=there if wanted else None,
        )


def _interfaces(said: list[Mapping[str, str]]) -> Iterator[Reading]:
    for one in said:
        speed = f", {one['speed']} Mb/s" if one["speed"].isdigit() else ""
        value = f"{one['operstate'] or '?'}{speed}, {one['carrier_changes'] or '?'} carrier changes"
        yield Reading(section="network", subject=one["name"], value=value)


def _probe(row: Mapping[str, Any], *, for_gate: bool) -> Reading:
    check, verdict = str(row["check"]), str(row["verdict"])
    section = next((title for start, title in _SECTIONS if check.startswith(start)), "host")
    code = str(row.get("what_to_do") or "").partition(":")[0]
    bad = verdict == "fatal" or (verdict == "warn" and fault_of(code).drains)
    ok: bool | None = True if verdict in ("ok", "info") else (False if bad else None)
    value = str(row["value"]) if ok else f"{verdict}: {row['value']}"
    if ok is False and for_gate and row.get("mode") not in ("drain", "comment"):
        ok, value = None, f"{value} (check in mode {row.get('mode')})"
    return Reading(
        section=section,
        subject=f"{check} {row['subject']}".removesuffix(" -"),
        value=value,
        limit=str(row["limit"]),
        ok=ok,
    )


CHECK = ActiveCheck(
    needs="nothing but Holdfast; what it sees is what the probes see",
    limits=Limits,
    time_limit_s=time_limit_s,
    command=command,
    read=read,
)

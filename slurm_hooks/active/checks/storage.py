"""Writes a file on every mount that jobs need, reads it back, and compares the data.

It needs only the standard library. The default limits detect a broken mount: read-only, hung, on a
slow fallback path, or returning other data. Set higher limits for the throughput that your shared
filesystem should have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.config.bounds import within
from holdfast.own_program import own_program
from slurm_hooks.active import ActiveCheck
from slurm_hooks.active.program import Missing, Node, Ran, unfinished
from slurm_hooks.active.result import Judged, Measurement, could_not_run, failed, judged_by

_SECTION = "I/O throughput"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Size of the file on each mount, and least throughput in MB/s (10^6 bytes)."""

    time_limit_s: float = 180.0
    """Time limit. A program that takes longer has failed."""
    size_mib: int = 256
    """Size of the file, which is written to each mount and removed again."""
    min_write_mb_s: float = 50.0
    """Least write throughput, sync included. Set it for your shared filesystem."""
    min_read_mb_s: float = 50.0
    """Least read throughput, without the page cache."""

    def __post_init__(self) -> None:
        within(self, time_limit_s=(5, 86400), size_mib=(4, 1 << 20))
        within(self, min_write_mb_s=(0, 1e6), min_read_mb_s=(0, 1e6))


def time_limit_s(limits: Limits, level: int) -> float:  # noqa: ARG001 - as every check
    return limits.time_limit_s


def command(node: Node, limits: Limits, level: int) -> list[str]:  # noqa: ARG001
    if not node.mounts:
        raise Missing("node.mounts names no mount to test")
    words = ["--size-mib", str(limits.size_mib), *node.mounts]
    return own_program("slurm_hooks.active.programs.storage", *words)


def read(ran: Ran, node: Node, limits: Limits, level: int) -> Judged:  # noqa: ARG001
    by_mount = _by_mount(ran.out)
    if ran.status is None and by_mount:
        silent = [
            mount
            for mount, values in by_mount.items()
            if "error" not in values and "size" not in values
        ]
        where = silent[0] if silent else "the test"
        readings = [r for values in by_mount.values() for r in _readings(values, limits)]
        return failed(f"{where} did not answer within {ran.limit_s:g} s", readings)
    early = unfinished(ran, "the storage test")
    if early is not None:
        return early
    readings = [reading for values in by_mount.values() for reading in _readings(values, limits)]
    unseen = [mount for mount in node.mounts if mount not in by_mount]
    if ran.status or unseen:
        return could_not_run(
            f"exit status {ran.status} before {', '.join(unseen) or 'the end'}", readings
        )
    return judged_by(readings, passed=f"{len(by_mount)} mounts written and read back")


def _by_mount(out: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for line in out.splitlines():
        try:
            values = json.loads(line)
            found.setdefault(str(values["mount"]), {}).update(values)
        except (ValueError, TypeError, KeyError):
            continue
    return found


def _readings(values: dict[str, Any], limits: Limits) -> Iterator[Measurement]:
    mount = str(values["mount"])
    if "error" in values:
        yield Measurement(
            section=_SECTION, subject=mount, value=str(values["error"]), limit="works", ok=False
        )
        return
    if "size" not in values:
        return
    least = {"write": limits.min_write_mb_s, "read": limits.min_read_mb_s}
    for what, limit in least.items():
        rate = float(values[f"{what}_mb_s"])
        yield Measurement(
            section=_SECTION,
            subject=f"{mount} {what}",
            value=f"{rate:.0f} MB/s",
            limit=f">= {limit:g} MB/s",
            ok=rate >= limit,
        )
    wrong = int(values["wrong_blocks"])
    yield Measurement(
        section=_SECTION,
        subject=f"{mount} blocks with wrong data",
        value=str(wrong),
        limit="0",
        ok=wrong == 0,
    )


CHECK = ActiveCheck(
    needs="only Holdfast; mounts in node.mounts",
    limits=Limits,
    time_limit_s=time_limit_s,
    command=command,
    read=read,
)

"""Memory and PCIe throughput of every GPU, and whether copied data is unchanged.

Default limits: 48 GB/s over PCIe each way (azurehpc-health-checks for ND H100 v5, Gen5 x16), and 60 %
of an H100 SXM's memory bandwidth (3350 GB/s, NVIDIA's H100 datasheet).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.config.bounds import within
from slurm_hooks.active import ActiveCheck
from slurm_hooks.active.program import Missing, Node, Ran, find_torch, load_program, unfinished
from slurm_hooks.active.result import Judged, Measurement, could_not_run, judged_by, one_line

_WORDS = {"hbm_gb_s": "GPU memory", "h2d_gb_s": "host to GPU", "d2h_gb_s": "GPU to host"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Rates in GB/s (10^9 bytes)."""

    time_limit_s: float = 300.0
    """Time limit. A program that takes longer has failed."""
    min_hbm_gb_s: float = 2000.0
    """Least throughput of copies inside the memory of each GPU, read plus write."""
    min_pcie_gb_s: float = 48.0
    """Least throughput of copies between host and each GPU, in each direction."""

    def __post_init__(self) -> None:
        within(self, time_limit_s=(10, 86400), min_hbm_gb_s=(0, 1e6), min_pcie_gb_s=(0, 1e6))


def time_limit_s(limits: Limits, level: int) -> float:  # noqa: ARG001 - as every check
    return limits.time_limit_s


def command(node: Node, limits: Limits, level: int) -> list[str]:  # noqa: ARG001
    if not node.gpus:
        raise Missing("node.expected_gpus is 0")
    return [find_torch(node), load_program("gpu.py"), "bandwidth"]


def read(ran: Ran, node: Node, limits: Limits, level: int) -> Judged:  # noqa: ARG001
    early = unfinished(ran, "the bandwidth test")
    if early is not None:
        return early
    rows = rows_of(ran.out)
    if ran.status or not rows:
        return could_not_run(f"exit status {ran.status}: {one_line(ran.err or ran.out)}")
    try:
        readings = [reading for row in rows for reading in _of_gpu(row, limits)]
    except (KeyError, TypeError, ValueError) as error:
        return could_not_run(f"unexpected output: {error}")
    readings.append(gpus_tested(rows, node))
    slowest = min(float(row["hbm_gb_s"]) for row in rows)
    return judged_by(readings, passed=f"{len(rows)} GPUs, memory at least {slowest:.0f} GB/s")


def gpus_tested(rows: Sequence[Mapping[str, Any]], node: Node) -> Measurement:
    """Whether the load program has a row for each GPU that the node should have."""
    return Measurement(
        section="GPU throughput",
        subject="GPUs tested",
        value=str(len(rows)),
        limit=str(node.gpus),
        ok=len(rows) == node.gpus,
    )


def rows_of(out: str) -> list[Mapping[str, Any]]:
    """The JSON objects about GPUs in the output of a load program."""
    rows = []
    for line in out.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, Mapping) and "gpu" in row:
            rows.append(row)
    return rows


def _of_gpu(row: Mapping[str, Any], limits: Limits) -> Iterator[Measurement]:
    name = f"GPU {row['gpu']}"
    for key, words in _WORDS.items():
        rate = float(row[key])
        least = limits.min_hbm_gb_s if key == "hbm_gb_s" else limits.min_pcie_gb_s
        yield Measurement(
            section="GPU throughput",
            subject=f"{name} {words}",
            value=f"{rate:.1f} GB/s",
            limit=f">= {least:g} GB/s",
            ok=rate >= least,
        )
    yield Measurement(
        section="GPU throughput",
        subject=f"{name} copied data",
        value="unchanged" if row["same"] else "changed",
        limit="unchanged",
        ok=bool(row["same"]),
    )


CHECK = ActiveCheck(
    needs="a torch with CUDA: active.torch_python, else python3 in PATH",
    limits=Limits,
    time_limit_s=time_limit_s,
    command=command,
    read=read,
)

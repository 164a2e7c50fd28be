"""All GPUs compute at the same time. Low throughput or differing results are a failure.

Every GPU computes the same bf16 matrix product repeatedly, so that power and cooling are loaded as
in training. Every result is compared with the first one, on the same GPU and between GPUs: this
finds silent data corruption that no counter shows.

Default limits: 40 % of an H100 SXM's dense bf16 peak (989 TFLOP/s, NVIDIA's H100 datasheet; torch's
matmul reaches 60 to 75 %), and no GPU more than 15 % below the node's median.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.config.bounds import within
from slurm_hooks.active import ActiveCheck
from slurm_hooks.active.checks.gpu_bandwidth import gpus_tested, rows_of
from slurm_hooks.active.program import Missing, Node, Ran, find_torch, load_program, unfinished
from slurm_hooks.active.result import Judged, Measurement, could_not_run, judged_by, one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Duration, and least throughput."""

    time_limit_s: float = 600.0
    """Time limit. A program that takes longer has failed."""
    load_s: float = 60.0
    """Seconds that all GPUs compute."""
    min_tflops: float = 400.0
    """Least throughput of each GPU in bf16."""
    min_share: float = 0.85
    """Least throughput of each GPU, as a share of the node's median."""

    def __post_init__(self) -> None:
        within(self, time_limit_s=(10, 86400), load_s=(1, 86400))
        within(self, min_tflops=(0, 1e6), min_share=(0, 1))
        if self.load_s >= self.time_limit_s:
            raise ValueError(
                f"load_s must be below time_limit_s ({self.time_limit_s:g}), got {self.load_s:g}"
            )


def time_limit_s(limits: Limits, level: int) -> float:  # noqa: ARG001 - as every check
    return limits.time_limit_s


def command(node: Node, limits: Limits, level: int) -> list[str]:  # noqa: ARG001
    if not node.gpus:
        raise Missing("node.expected_gpus is 0")
    return [find_torch(node), load_program("gpu.py"), "burn", "--seconds", f"{limits.load_s:g}"]


def read(ran: Ran, node: Node, limits: Limits, level: int) -> Judged:  # noqa: ARG001
    early = unfinished(ran, "the GPU burn")
    if early is not None:
        return early
    rows = rows_of(ran.out)
    if ran.status or not rows:
        return could_not_run(f"exit status {ran.status}: {one_line(ran.err or ran.out)}")
    from statistics import median  # noqa: PLC0415 - 0.6 MiB, and the agent loads this module for its limits

    try:
        typical = median(float(row["tflops"]) for row in rows)
        readings = [reading for row in rows for reading in _of_gpu(row, typical, limits)]
    except (KeyError, TypeError, ValueError) as error:
        return could_not_run(f"unexpected output: {error}")
    readings.append(gpus_tested(rows, node))
    return judged_by(readings, passed=f"{len(rows)} GPUs, median {typical:.0f} TFLOP/s")


def _of_gpu(row: Mapping[str, Any], typical: float, limits: Limits) -> Iterator[Measurement]:
    rate, name = float(row["tflops"]), f"GPU {row['gpu']}"
    least = max(limits.min_tflops, limits.min_share * typical)
    yield Measurement(
        section="GPU throughput",
        subject=f"{name} bf16",
        value=f"{rate:.0f} TFLOP/s",
        limit=f">= {least:.0f} TFLOP/s",
        ok=rate >= least,
    )
    wrong = int(row["mismatches"]) if row["finite"] else int(row["rounds"])
    yield Measurement(
        section="GPU throughput",
        subject=f"{name} differing results",
        value=str(wrong),
        limit="0",
        ok=wrong == 0,
    )


CHECK = ActiveCheck(
    needs="a torch with CUDA: active.torch_python, else python3 in PATH",
    limits=Limits,
    time_limit_s=time_limit_s,
    command=command,
    read=read,
)

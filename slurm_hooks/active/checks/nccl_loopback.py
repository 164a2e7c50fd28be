"""All-reduce over the GPUs of one node: NVLink, NVSwitch and Fabric Manager under load.

It uses nccl-tests' ``all_reduce_perf`` where it is installed, else torch.

Default limit: below a healthy HGX H100 at 8 GiB (477 GB/s recorded in tests/data/active, "peak ~480"
in issue 212 of NVIDIA/nccl-tests; azurehpc-health-checks requires 460 at 16 GiB) and above NVLink
without SHARP (370, same issue). NVSentinel's preflight requires 150 at 256 MB.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.config.bounds import within
from slurm_hooks.active import ActiveCheck
from slurm_hooks.active.checks import nccl_output
from slurm_hooks.active.program import (
    WHERE,
    Missing,
    Node,
    Ran,
    find,
    find_torch,
    load_program,
    unfinished,
)
from slurm_hooks.active.result import (
    Judged,
    Measurement,
    could_not_run,
    failed,
    judged_by,
    one_line,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Message size, and least bus bandwidth in GB/s."""

    time_limit_s: float = 300.0
    """Time limit. A program that takes longer has failed."""
    size_mib: int = 8192
    """Size of the message."""
    min_busbw_gb_s: float = 400.0
    """Least bus bandwidth over the GPUs of a node."""

    def __post_init__(self) -> None:
        within(self, time_limit_s=(10, 86400), size_mib=(1, 32768), min_busbw_gb_s=(0.1, 10000))


def time_limit_s(limits: Limits, level: int) -> float:  # noqa: ARG001 - as every check
    return limits.time_limit_s


def command(node: Node, limits: Limits, level: int) -> list[str]:  # noqa: ARG001
    if node.gpus < 2:
        raise Missing(f"an all-reduce needs two GPUs; node.expected_gpus is {node.gpus}")
    size = f"{limits.size_mib}M"
    folders = [node.nccl_tests] if node.nccl_tests else list(WHERE)
    try:
        program = find("all_reduce_perf", folders)
    except Missing as error:
        try:
            python = find_torch(node)
        except Missing as other:
            raise Missing(f"{error}; {other}") from None
        words = ["--gpus", str(node.gpus), "--size-mib", str(limits.size_mib)]
        return [python, load_program("all_reduce.py"), *words]
    return [program, "-b", size, "-e", size, "-g", str(node.gpus), "-c", "1", "-n", "10"]


def read(ran: Ran, node: Node, limits: Limits, level: int) -> Judged:  # noqa: ARG001
    return judge(ran, node.gpus, limits.min_busbw_gb_s)


def judge(ran: Ran, ranks: int, min_busbw_gb_s: float) -> Judged:
    """The verdict on an all-reduce over this many ranks, by its bus bandwidth."""
    early = unfinished(ran, "the all-reduce")
    if early is not None:
        return early
    run = nccl_output.parse(ran.out)
    if run is None:
        trouble = nccl_output.trouble(ran.out + "\n" + ran.err)
        if trouble:
            return failed(trouble)
        return could_not_run(
            f"the all-reduce exited with {ran.status}: {one_line(ran.err or ran.out)}"
        )
    if run.ranks != ranks:
        return could_not_run(
            f"it ran over {run.ranks} ranks instead of {ranks}: all_reduce_perf without MPI?"
        )
    readings = [
        Measurement(
            section="network throughput",
            subject=f"all-reduce of {run.size >> 20} MiB over {run.ranks} GPUs",
            value=f"{run.busbw_gb_s:.1f} GB/s",
            limit=f">= {min_busbw_gb_s:g} GB/s",
            ok=run.busbw_gb_s >= min_busbw_gb_s,
        )
    ]
    if run.wrong is not None:
        readings.append(
            Measurement(
                section="network throughput",
                subject="wrong values",
                value=str(run.wrong),
                limit="0",
                ok=run.wrong == 0,
            )
        )
    return judged_by(readings, passed=f"bus bandwidth {run.busbw_gb_s:.1f} GB/s")


CHECK = ActiveCheck(
    needs="all_reduce_perf of nccl-tests in PATH or in active.nccl_tests, or a torch with CUDA",
    limits=Limits,
    time_limit_s=time_limit_s,
    command=command,
    read=read,
)

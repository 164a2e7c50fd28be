"""All-reduce over pairs of nodes; a second round with other partners finds the faulty node of a pair.

If a pair fails, either node may be faulty. So each of them runs again with a node that passed, and
the failure is attributed to the node that fails again (``pairs``). The command is ``srun --mpi=…
all_reduce_perf`` with one rank per GPU, as in Soperator's images (nebius/soperator pull request 428).

Default limit: half of the line rate of eight 400 Gb/s ports (400 GB/s). NVSentinel's preflight
requires 100 GB/s; healthy pairs of H100 nodes with eight ports were recorded at 440 and more.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.config.bounds import within
from slurm_hooks.active import ActiveCheck
from slurm_hooks.active.checks.nccl_loopback import judge
from slurm_hooks.active.program import WHERE, Missing, Node, Ran, find, find_torch, load_program
from slurm_hooks.active.result import Judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Message size, least bus bandwidth in GB/s, and how the ranks find each other."""

    time_limit_s: float = 600.0
    """Time limit. A program that takes longer has failed."""
    size_mib: int = 8192
    """Size of the message."""
    min_busbw_gb_s: float = 200.0
    """Least bus bandwidth over the GPUs of two nodes."""
    mpi: str = "pmix"
    """Value for `srun --mpi`; `none`: use torch instead of nccl-tests."""

    def __post_init__(self) -> None:
        within(self, time_limit_s=(10, 86400), size_mib=(1, 32768), min_busbw_gb_s=(0.1, 10000))
        if not self.mpi.replace("_", "").replace(".", "").isalnum():
            raise ValueError(f"mpi must be a plugin of srun --mpi, got {self.mpi!r}")


def time_limit_s(limits: Limits, level: int) -> float:  # noqa: ARG001 - as every check
    return limits.time_limit_s


def command(node: Node, limits: Limits, level: int) -> list[str]:  # noqa: ARG001
    """The program of each rank; each of the two nodes runs ``node.gpus`` ranks."""
    if node.gpus < 1:
        raise Missing("node.expected_gpus is 0")
    if limits.mpi != "none":
        folders = [node.nccl_tests] if node.nccl_tests else list(WHERE)
        for name in ("all_reduce_perf_mpi", "all_reduce_perf"):
            try:
                program = find(name, folders)
            except Missing:
                continue
            size = f"{limits.size_mib}M"
            return [program, "-b", size, "-e", size, "-g", "1", "-c", "1", "-n", "10"]
    try:
        python = find_torch(node)
    except Missing as error:
        raise Missing(f"no all_reduce_perf in PATH; {error}") from None
    return [python, load_program("all_reduce.py"), "--size-mib", str(limits.size_mib)]


def read(ran: Ran, node: Node, limits: Limits, level: int) -> Judged:  # noqa: ARG001
    return judge(ran, 2 * node.gpus, limits.min_busbw_gb_s)


CHECK = ActiveCheck(
    needs="all_reduce_perf_mpi or all_reduce_perf (built with MPI) and Slurm's mpi/pmix, or a torch with CUDA",
    nodes=2,
    limits=Limits,
    time_limit_s=time_limit_s,
    command=command,
    read=read,
)

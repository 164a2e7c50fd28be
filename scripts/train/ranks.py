"""This process's rank in a Slurm job, and the start of several ranks from one task."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

RENDEZVOUS = timedelta(seconds=120)


@dataclass(frozen=True)
class Rank:
    """``rank`` of ``world`` in the job, ``local`` on this node (also the index of its GPU)."""

    rank: int
    world: int
    local: int
    device: torch.device

    @property
    def first(self) -> bool:
        return self.rank == 0


def fork(ranks: int) -> int:
    """Become ``ranks`` processes; each gets its index, the parent never returns.

    Like ``torchrun``, but torch is imported once per node and not once per rank. The parent exits with
    the first rank that fails, so that Slurm sees the failed task at once.
    """
    if ranks == 1:
        return 0
    importlib.import_module("torch._dynamo")  # DDP imports it; here once instead of in every rank
    children = set()
    for index in range(ranks):
        pid = os.fork()
        if pid == 0:
            return index
        children.add(pid)
    while children:
        pid, status = os.wait()
        children.discard(pid)
        if status:
            os._exit(os.waitstatus_to_exitcode(status) % 256)
    os._exit(0)


def join(index: int, per_task: int) -> Rank:
    """Join the job's process group as rank ``index`` of this Slurm task."""
    env = os.environ
    rank = int(env.get("SLURM_PROCID", 0)) * per_task + index
    world = int(env.get("SLURM_NTASKS", 1)) * per_task
    local = int(env.get("SLURM_LOCALID", 0)) * per_task + index
    # srun starts on the first node of the allocation, which is also where rank 0 runs.
    env.setdefault("MASTER_ADDR", env.get("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1"))
    env.setdefault("MASTER_PORT", str(master_port()))
    env.setdefault("USE_LIBUV", "0")  # Debian builds torch without it
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(local)
    backend = "nccl" if cuda else "gloo"
    dist.init_process_group(backend, timeout=RENDEZVOUS, rank=rank, world_size=world)
    return Rank(rank, world, local, torch.device("cuda", local) if cuda else torch.device("cpu"))


def master_port() -> int:
    """A port for this job, attempt and step: ranks of an earlier attempt may still run."""
    job, attempt, step = (
        int(os.environ.get(f"SLURM_{name}", 0)) for name in ("JOB_ID", "RESTART_COUNT", "STEP_ID")
    )
    return 20000 + (job * 64 + attempt * 4 + step) % 12000

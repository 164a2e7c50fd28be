"""All-reduce with torch.distributed and NCCL, for nodes without nccl-tests.

Under srun each task is one rank (SLURM_PROCID, SLURM_LOCALID, SLURM_NTASKS); otherwise it starts
``--gpus`` ranks on this machine. Needs torch and nothing of Holdfast. Rank 0 prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

_WARM_UP, _ROUNDS = 5, 20
_PORT = 29521


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--size-mib", type=int, default=8192)
    args = parser.parse_args()
    ranks = int(os.environ.get("SLURM_NTASKS", "1"))
    if ranks > 1:
        place = (int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_LOCALID"]))
        os.environ.setdefault("MASTER_ADDR", _first(os.environ["SLURM_STEP_NODELIST"]))
        os.environ.setdefault("MASTER_PORT", str(_PORT))
        rank(place[1], place[0], ranks, args.size_mib)
        return 0
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ["MASTER_PORT"] = str(free.getsockname()[1])
    gpus = args.gpus or torch.cuda.device_count()
    processes.spawn(_local, args=(gpus, args.size_mib), nprocs=gpus)
    return 0


def _local(index: int, ranks: int, size_mib: int) -> None:
    rank(index, index, ranks, size_mib)


def _first(hostlist: str) -> str:
    """The first host of ``a-[3-5,9],b``."""
    match = re.match(r"([^\[,]+)(?:\[([0-9]+))?", hostlist)
    return (match[1] + (match[2] or "")) if match else hostlist


def rank(local: int, index: int, ranks: int, size_mib: int) -> None:
    """One rank. The input is all ones, so every result must equal the number of ranks."""
    torch.cuda.set_device(local)
    dist.init_process_group("nccl", rank=index, world_size=ranks)
    hosts: list[Any] = [None] * ranks
    dist.all_gather_object(hosts, socket.gethostname())
    data = torch.ones(size_mib << 18, dtype=torch.float32, device="cuda")
    dist.all_reduce(data)
    torch.cuda.synchronize()
    wrong = torch.count_nonzero(data != ranks)
    dist.all_reduce(wrong)
    for _ in range(_WARM_UP):
        dist.all_reduce(data)
    torch.cuda.synchronize()
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(_ROUNDS):
        dist.all_reduce(data)
    torch.cuda.synchronize()
    took_s = (time.perf_counter() - begin) / _ROUNDS
    if index == 0:
        values = {
            "ranks": ranks,
            "hosts": list(dict.fromkeys(hosts)),
            "size": data.numel() * 4,
            # Bus bandwidth of nccl-tests (doc/PERFORMANCE.md): 2(n-1)/n times the algorithm's.
            "busbw_gb_s": data.numel() * 4 / took_s / 1e9 * 2 * (ranks - 1) / ranks,
            "wrong": int(wrong.item()),
        }
        sys.stdout.write(json.dumps({"all_reduce": values}) + "\n")
        sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())

"""Records the small real checkpoints in this folder (needs torch): ``python3 record.py FOLDER``.

``checkpoint_epoch_2.pt``    torch.save of a module, an optimizer and a step (zip container, torch
                             >= 1.6)
``legacy_step_3.pt``         the same in the container that torch wrote before 1.6
``step-4/``                  torch.distributed.checkpoint written by two ranks (gloo)
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp


def _state(step: int) -> dict[str, object]:
    torch.manual_seed(step)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}


def _write_dcp(rank: int, folder: str) -> None:
    dist.init_process_group(
        "gloo", init_method="tcp://127.0.0.1:29517?use_libuv=0", rank=rank, world_size=2
    )
    state = _state(4)
    state[f"own_{rank}"] = torch.full((64,), float(rank))
    dcp.save(state, checkpoint_id=folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    out = Path(sys.argv[1])
    torch.save(_state(2), out / "checkpoint_epoch_2.pt")
    torch.save(_state(3), out / "legacy_step_3.pt", _use_new_zipfile_serialization=False)
    mp.spawn(_write_dcp, args=(str(out / "step-4"),), nprocs=2)

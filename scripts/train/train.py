"""A small PyTorch DDP training whose final weights can be compared bit for bit.

Run by ``srun``; torch's settings are derived from ``SLURM_*``. Uses NCCL where torch has GPUs, else
gloo. Resumes from ``HOLDFAST_RESUME_FROM`` when it is set: model, optimizer, step, sampler position
and every rank's random state.

Example: srun --ntasks-per-node=1 python3 train.py --ranks-per-task 4 --checkpoints /mnt/training/c
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import time
import traceback
from pathlib import Path

import torch
import torch.distributed as dist
from gpu import gpu_touch
from ranks import Rank, fork, join
from resumable import Plan, Training, write_then_rename


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    parser.add_argument("--steps", type=int, default=60, help="optimizer steps in all (default 60)")
    parser.add_argument("--every", type=int, default=5, help="steps between checkpoints")
    parser.add_argument("--checkpoints", type=Path, required=True, help="folder on a shared mount")
    parser.add_argument("--format", choices=["pt", "dcp"], default="pt", help="checkpoint format")
    parser.add_argument("--output", type=Path, help="final model (default: beside the checkpoints)")
    parser.add_argument("--original", type=Path, help="keep the untrained model here, once")
    parser.add_argument("--start-from", type=Path, help="a trained model to fine-tune")
    parser.add_argument("--progress", type=Path, help="file for JSON lines, one per event")
    parser.add_argument("--step-seconds", type=float, default=0.25, help="least time a step takes")
    parser.add_argument("--ranks-per-task", type=int, default=1, help="ranks in each Slurm task")
    parser.add_argument("--seed", type=int, default=1234)
    return parser.parse_args()


class Progress:
    """One JSON line per event, appended by rank 0 with one write each."""

    def __init__(self, path: Path | None, me: Rank):
        self._file = path.open("a", encoding="utf-8") if path and me.first else None
        self._base = {
            "job": os.environ.get("SLURM_JOB_ID", ""),
            "attempt": int(os.environ.get("SLURM_RESTART_COUNT", 0)),
            "host": os.environ.get("SLURMD_NODENAME", socket.gethostname()),
        }

    def say(self, event: str, **facts: object) -> None:
        if self._file:
            line = {"t": round(time.time(), 4), "event": event, **self._base, **facts}
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()


def train(run: Training, args: argparse.Namespace, progress: Progress) -> None:
    touch = gpu_touch(run.me.local)
    while run.step < args.steps:
        begin = time.monotonic()
        touch()
        loss = run.advance()
        time.sleep(max(0.0, args.step_seconds - (time.monotonic() - begin)))
        if run.me.first:
            print(f"step {run.step} loss {loss:.4f}", flush=True)
        took_s = round(time.monotonic() - begin, 4)
        progress.say("step", step=run.step, loss=round(loss, 6), took_s=took_s)
        if run.step % args.every == 0 and run.step < args.steps:
            progress.say("saved", step=run.step, path=str(run.save()))


def main() -> Training:
    """The training; returned so that it outlives the process group.

    Freeing DDP's reducer joins gloo's threads while it holds the interpreter lock, and such a thread
    may wait for that lock to free a gradient: then a run, about one in dozens, never ends (torch 2.6).
    """
    args = options()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    me = join(fork(args.ranks_per_task), args.ranks_per_task)
    args.checkpoints.mkdir(parents=True, exist_ok=True)
    progress = Progress(args.progress, me)
    progress.say("joined", world=me.world)
    run = Training(Plan(args.seed, args.checkpoints, args.format), me)
    if args.start_from:
        run.start_from(args.start_from)
    if args.original and me.first and not args.original.exists():
        args.original.parent.mkdir(parents=True, exist_ok=True)
        write_then_rename(run.model.state_dict(), args.original)
    resume = os.environ.get("HOLDFAST_RESUME_FROM", "")
    if resume:
        run.load(Path(resume))
        if me.first:
            print(f"resumed {resume} at step {run.step}", flush=True)
        progress.say("loaded", step=run.step, path=resume)
    train(run, args, progress)
    output = args.output or args.checkpoints / "trained_model.pt"
    if me.first:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_then_rename(run.model.state_dict(), output)
    progress.say("done", step=run.step, path=str(output))
    dist.destroy_process_group()
    return run


def leave(status: int) -> None:
    """Exit without torch's teardown, which takes seconds in forked ranks; all files are closed."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    try:
        kept = main()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        leave(end.code if isinstance(end.code, int) else int(end.code is not None))
    except BaseException:  # noqa: BLE001 - a failed rank must exit at once
        traceback.print_exc()
        leave(1)
    leave(0)

"""Evaluates a model on data that it was not trained on; can be stopped and continued at any time.

The data are split into shards. Each task takes every n-th shard and saves its result as a file of its
own; a shard whose file is there is not computed again. ``--merge`` writes the results of all shards
as one JSON file, which ``compare_models.py`` reads.

Example: srun python3 infer.py --model /mnt/inference/original/original_model.pt --shards /mnt/inference/o
         python3 infer.py --model … --shards /mnt/inference/o --merge /mnt/inference/o/inference_results.json
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from gpu import gpu_touch
from resumable import held_out, network, write_then_rename
from weights import digest

SHARD_SAMPLES = 64


def options(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    parser.add_argument("--model", type=Path, required=True, help="a model's file of train.py")
    parser.add_argument("--shards", type=Path, required=True, help="folder for shard_N.pt files")
    parser.add_argument("--merge", type=Path, help="write the results of all shards to this file")
    parser.add_argument("--count", type=int, default=64, help="shards of 64 samples (default 64)")
    parser.add_argument("--shard-seconds", type=float, default=0.0, help="least time a shard takes")
    parser.add_argument("--seed", type=int, default=1234, help="the training's seed")
    return parser.parse_args(argv)


def done(path: Path, model: str) -> dict[str, Any] | None:
    """A shard's result, None if it is missing or of another model."""
    try:
        result: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        return None
    return result if result["model"] == model else None


def infer(args: argparse.Namespace, state: dict[str, Any], model: str) -> None:
    """This task's shards that have no result yet."""
    task, tasks = (int(os.environ.get(f"SLURM_{name}", 0)) for name in ("PROCID", "NTASKS"))
    touch = gpu_touch(int(os.environ.get("SLURM_LOCALID", 0)))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = network(args.seed).to(device).eval()
    net.load_state_dict(state)
    inputs, labels = held_out(args.seed, args.count * SHARD_SAMPLES)
    args.shards.mkdir(parents=True, exist_ok=True)
    for shard in range(task, args.count, max(1, tasks)):
        path = args.shards / f"shard_{shard}.pt"
        if done(path, model) is not None:
            continue
        begin = time.monotonic()
        touch()
        chosen = slice(shard * SHARD_SAMPLES, (shard + 1) * SHARD_SAMPLES)
        with torch.inference_mode():
            logits = net(inputs[chosen].to(device)).cpu()
        loss = torch.nn.functional.cross_entropy(logits, labels[chosen], reduction="sum")
        result = {"model": model, "step": shard + 1, "loss_sum": float(loss)}
        write_then_rename({**result, "predictions": logits.argmax(1)}, path)
        time.sleep(max(0.0, args.shard_seconds - (time.monotonic() - begin)))
        print(f"shard {shard} of {args.count}", flush=True)


def merge(args: argparse.Namespace, model: str) -> int:
    results = [done(args.shards / f"shard_{shard}.pt", model) for shard in range(args.count)]
    missing = [str(shard) for shard, result in enumerate(results) if result is None]
    if missing:
        print(f"{args.shards}: no result for shards {', '.join(missing)}", file=sys.stderr)
        return 1
    predictions = torch.cat([result["predictions"] for result in results if result])
    _, labels = held_out(args.seed, args.count * SHARD_SAMPLES)
    report = {
        "model": str(args.model),
        "weights_sha256": model,
        "seed": args.seed,
        "samples": len(labels),
        "correct": int((predictions == labels).sum()),
        "mean_loss": sum(result["loss_sum"] for result in results if result) / len(labels),
        "predictions": predictions.tolist(),
    }
    part = args.merge.with_name(f".{args.merge.name}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    part.write_text(json.dumps(report) + "\n", encoding="utf-8")
    part.replace(args.merge)
    print(f"{args.merge}: {report['correct']} of {report['samples']} right")
    return 0


def main() -> int:
    args = options()
    torch.set_num_threads(1)
    state = torch.load(args.model, map_location="cpu", weights_only=True)
    model = digest(state)
    if args.merge:
        return merge(args, model)
    infer(args, state, model)
    return 0


if __name__ == "__main__":
    sys.exit(main())

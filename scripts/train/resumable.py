"""The model, its data, and a checkpoint with everything that a resumed run needs.

Two runs with the same seed and number of ranks are identical bit for bit, interrupted or not:
gradients are summed in rank order (an all-reduce sums in an order that depends on buckets and
topology), and the checkpoint contains the random state of each rank.
"""

# No `from __future__ import annotations` here: DDP reads the communication hook's annotations.

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from ranks import Rank

FEATURES, CLASSES, SAMPLES, BATCH = 32, 8, 8192, 32


@dataclass(frozen=True)
class Plan:
    """``kind`` is ``pt`` (one file) or ``dcp`` (a folder that all ranks write)."""

    seed: int
    checkpoints: Path
    kind: str


def dataset(seed: int) -> tuple[Any, Any]:
    """Inputs (SAMPLES, FEATURES) float32, and their classes from a random teacher network."""
    source = torch.Generator().manual_seed(seed)
    inputs = torch.randn(SAMPLES, FEATURES, generator=source)
    return inputs, _labels(inputs, *_teacher(source))


def held_out(seed: int, samples: int) -> tuple[Any, Any]:
    """As ``dataset``, and from the same teacher, but inputs that are not in it."""
    source = torch.Generator().manual_seed(seed)
    torch.randn(SAMPLES, FEATURES, generator=source)
    teacher = _teacher(source)
    inputs = torch.randn(samples, FEATURES, generator=source)
    return inputs, _labels(inputs, *teacher)


def _teacher(source: torch.Generator) -> tuple[Any, Any]:
    first = torch.randn(FEATURES, 64, generator=source)
    return first, torch.randn(64, CLASSES, generator=source)


def _labels(inputs: Any, first: Any, second: Any) -> Any:
    return (torch.tanh(inputs @ first) @ second).argmax(1)


def network(seed: int) -> Any:
    torch.manual_seed(seed)
    nn = torch.nn
    return nn.Sequential(
        nn.Linear(FEATURES, 256),
        nn.GELU(),
        nn.Dropout(0.1),
        nn.Linear(256, 256),
        nn.GELU(),
        nn.Dropout(0.1),
        nn.Linear(256, CLASSES),
    )


def mean_in_rank_order(world: int, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """DDP communication hook: gather all gradients, sum them in rank order, divide."""
    mine = bucket.buffer()
    parts = [torch.empty_like(mine) for _ in range(world)]
    dist.all_gather(parts, mine)
    total = parts[0].clone()
    for part in parts[1:]:
        total += part
    answer: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    answer.set_result(total.div_(world))
    return answer


class Training:
    """A training after ``step`` optimizer steps."""

    def __init__(self, plan: Plan, me: Rank):
        self.plan, self.me, self.step = plan, me, 0
        self.inputs, self.labels = dataset(plan.seed)
        self.model = network(plan.seed).to(me.device)
        self.ddp = torch.nn.parallel.DistributedDataParallel(self.model)
        self.ddp.register_comm_hook(me.world, mean_in_rank_order)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-3)
        # Each rank drops out different units, so it has its own random state.
        torch.manual_seed(plan.seed + 1 + me.rank)

    def advance(self) -> float:
        """One optimizer step; the loss is this rank's."""
        chosen = self.batch()
        x, y = self.inputs[chosen].to(self.me.device), self.labels[chosen].to(self.me.device)
        loss = torch.nn.functional.cross_entropy(self.ddp(x), y)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.step += 1
        return float(loss.detach())

    def batch(self) -> Any:
        """Indices of this rank's share of the step's batch, from the epoch's permutation."""
        at = self.sampler()
        source = torch.Generator().manual_seed(self.plan.seed + 7919 * at["epoch"])
        begin = (at["cursor"] * self.me.world + self.me.rank) * BATCH
        return torch.randperm(SAMPLES, generator=source)[begin : begin + BATCH]

    def sampler(self) -> dict[str, int]:
        per_epoch = SAMPLES // (BATCH * self.me.world)
        return {"epoch": self.step // per_epoch, "cursor": self.step % per_epoch}

    def random_states(self) -> list[Any]:
        """Every rank's random state, in rank order, on every rank."""
        cuda = self.me.device.type == "cuda"
        mine = torch.cuda.get_rng_state() if cuda else torch.get_rng_state()
        parts = [torch.empty_like(mine).to(self.me.device) for _ in range(self.me.world)]
        dist.all_gather(parts, mine.to(self.me.device))
        return [part.cpu() for part in parts]

    def facts(self) -> dict[str, Any]:
        """The state without model and optimizer."""
        return {
            "step": self.step,
            "sampler": self.sampler(),
            "rng": self.random_states(),
            "seed": self.plan.seed,
            "world_size": self.me.world,
        }

    def save(self) -> Path:
        """Write under a temporary name, then rename, so that the final name is never incomplete."""
        name = f"checkpoint_step_{self.step}"
        facts = self.facts()
        if self.plan.kind == "dcp":
            return self._save_dcp(facts, self.plan.checkpoints / name)
        path = self.plan.checkpoints / f"{name}.pt"
        if self.me.first:
            model, optimizer = self.model.state_dict(), self.optimizer.state_dict()
            write_then_rename({**facts, "model": model, "optimizer": optimizer}, path)
        return path

    def _save_dcp(self, facts: dict[str, Any], path: Path) -> Path:
        import torch.distributed.checkpoint as dcp  # noqa: PLC0415 - slow to import
        from torch.distributed.checkpoint.state_dict import get_state_dict  # noqa: PLC0415

        model, optimizer = get_state_dict(self.model, self.optimizer)
        part = path.with_name(f".{path.name}.part")
        dcp.save({**facts, "model": model, "optimizer": optimizer}, checkpoint_id=str(part))
        if self.me.first:
            shutil.rmtree(path, ignore_errors=True)
            part.rename(path)
        dist.barrier()
        return path

    def start_from(self, path: Path) -> None:
        """Begin with another training's final weights instead of random ones."""
        self.model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))

    def load(self, path: Path) -> None:
        """Resume from ``path``; ``SystemExit`` when it belongs to another kind of run."""
        state = self._load_dcp(path) if path.is_dir() else self._load_pt(path)
        if state["world_size"] != self.me.world or state["seed"] != self.plan.seed:
            raise SystemExit(
                f"{path}: made by {state['world_size']} ranks with seed {state['seed']}, this job "
                f"has {self.me.world} and {self.plan.seed}; use another --checkpoints folder"
            )
        self.step = int(state["step"])
        if dict(state["sampler"]) != self.sampler():
            raise SystemExit(f"{path}: its sampler position does not belong to its step")
        mine = state["rng"][self.me.rank]
        if self.me.device.type == "cuda":
            torch.cuda.set_rng_state(mine)
        else:
            torch.set_rng_state(mine)

    def _load_pt(self, path: Path) -> dict[str, Any]:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        return state

    def _load_dcp(self, path: Path) -> dict[str, Any]:
        import torch.distributed.checkpoint as dcp  # noqa: PLC0415 - slow to import
        from torch.distributed.checkpoint import state_dict as wrapped  # noqa: PLC0415

        model, optimizer = wrapped.get_state_dict(self.model, self.optimizer)
        state = {**self.facts(), "model": model, "optimizer": optimizer}
        dcp.load(state, checkpoint_id=str(path))
        wrapped.set_state_dict(
            self.model, self.optimizer, model_state_dict=model, optim_state_dict=optimizer
        )
        return state


def write_then_rename(state: object, path: Path) -> None:
    # Two jobs may write the same file, as the untrained model.
    part = path.with_name(f".{path.name}.{os.environ.get('SLURM_JOB_ID', '')}.part")
    with part.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)

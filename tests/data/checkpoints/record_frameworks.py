"""Records the checkpoints of frameworks other than plain torch in this folder.

``python3 record_frameworks.py FOLDER FAMILY``, once for each family, on a machine without a GPU. The
files here were made by torch 2.6, transformers 5.23, lightning 2.6.6, deepspeed 0.19.8 (ZeRO 1, two
ranks), megatron-core 0.19.2 (two ranks), orbax-checkpoint 0.12.8, a current tensorflow-cpu and
safetensors 0.8. Left out: code that frameworks put beside a checkpoint, ``training_args.bin``, logs, and
all but one or two steps.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def _net() -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))


def _loss(net: Any, inputs: Any, labels: Any) -> Any:
    return torch.nn.functional.cross_entropy(net(inputs), labels)


def safetensors(out: Path) -> None:
    from safetensors.torch import save_file

    out.mkdir(parents=True)
    save_file(_net().state_dict(), out / "model_step_7.safetensors")


def torch_ranks(out: Path) -> None:
    out.mkdir(parents=True)
    for rank in range(2):
        torch.save({"w": torch.ones(3) * rank}, out / f"step_2_rank_{rank}.pt")


def hf_trainer(out: Path) -> None:
    from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments

    class Model(PreTrainedModel):  # type: ignore[misc]
        config_class = PretrainedConfig

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.net = _net()
            self.post_init()

        def forward(self, x: Any = None, labels: Any = None) -> dict[str, Any]:
            return {"loss": _loss(self.net, x, labels), "logits": self.net(x)}

    data = [{"x": torch.ones(4), "labels": torch.tensor(1)} for _ in range(8)]
    given = TrainingArguments(
        output_dir=str(out),
        max_steps=4,
        save_steps=2,
        per_device_train_batch_size=2,
        report_to=[],
        use_cpu=True,
        logging_steps=1,
    )
    Trainer(model=Model(PretrainedConfig()), args=given, train_dataset=data).train()


def lightning(out: Path) -> None:
    import lightning as pl
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Model(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = _net()

        def training_step(self, batch: Any, _: int) -> Any:
            return _loss(self.net, *batch)

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters())

    data = torch.utils.data.TensorDataset(torch.ones(8, 4), torch.ones(8, dtype=torch.long))
    keep = ModelCheckpoint(save_last=True, save_top_k=-1, every_n_epochs=1)
    trainer = pl.Trainer(
        max_epochs=2, default_root_dir=str(out), accelerator="cpu", callbacks=[keep]
    )
    trainer.fit(Model(), torch.utils.data.DataLoader(data, batch_size=4))


def orbax(out: Path) -> None:
    import jax.numpy as jnp
    import orbax.checkpoint as ocp

    manager = ocp.CheckpointManager(out)
    state = {"w": jnp.ones((4, 8)), "b": jnp.zeros(8), "step": 10}
    manager.save(10, args=ocp.args.StandardSave(state))
    manager.wait_until_finished()


def tensorflow(out: Path) -> None:
    import tensorflow as tf

    out.mkdir(parents=True)
    state = tf.train.Checkpoint(w=tf.Variable(tf.ones((4, 8))), step=tf.Variable(3))
    manager = tf.train.CheckpointManager(state, str(out), max_to_keep=3)
    manager.save()
    manager.save()


def _join(rank: int) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2")
    where = "tcp://127.0.0.1:29519?use_libuv=0"
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=2)


def _megatron(rank: int, out: Path) -> None:
    _join(rank)
    import torch._dynamo  # reads torch.cuda, which changes below
    from megatron.core import dist_checkpointing
    from megatron.core.dist_checkpointing import ShardedTensor

    # megatron-core synchronises with the GPU before it writes; here there is none.
    torch.cuda.synchronize = torch.cuda.set_device = lambda *_: None
    torch.cuda.current_device = lambda: "cpu"
    path = out / "iter_0000100"
    path.mkdir(parents=True, exist_ok=True)
    dist.barrier()
    tensor = ShardedTensor.from_rank_offsets("w", torch.ones(4, 8) * rank, (0, rank, 2))
    dist_checkpointing.save({"model": {"w": tensor}, "iteration": 100}, str(path))
    (out / "latest_checkpointed_iteration.txt").write_text("100")


def _deepspeed(rank: int, out: Path) -> None:
    _join(rank)
    os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed
    import deepspeed.comm

    # Without a compiler: the ranks use gloo only.
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda *_: None  # type: ignore[attr-defined]
    adam = {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}}
    config = {
        "train_micro_batch_size_per_gpu": 2,
        "zero_optimization": {"stage": 1},
        "optimizer": adam,
    }
    engine = deepspeed.initialize(model=_net(), config=config, dist_init_required=False)[0]
    for _ in range(2):
        loss = engine(torch.ones(2, 4)).sum()
        engine.backward(loss)
        engine.step()
    engine.save_checkpoint(str(out))


def megatron(out: Path) -> None:
    mp.spawn(_megatron, args=(out,), nprocs=2)


def deepspeed_(out: Path) -> None:
    mp.spawn(_deepspeed, args=(out,), nprocs=2)


FAMILIES = {
    "safetensors": safetensors,
    "torch-ranks": torch_ranks,
    "hf-trainer": hf_trainer,
    "lightning": lightning,
    "orbax": orbax,
    "tensorflow": tensorflow,
    "megatron-dist": megatron,
    "deepspeed": deepspeed_,
}

if __name__ == "__main__":
    FAMILIES[sys.argv[2]](Path(sys.argv[1]) / sys.argv[2])

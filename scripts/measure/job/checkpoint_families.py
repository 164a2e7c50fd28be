"""A thousand checkpoints of each family that Holdfast recognises, made of recorded ones (tests/data/checkpoints).

Files are hard links. Where a family was not recorded, its checkpoints are recorded parts in its form, as in the unit
tests.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

from testbed.paths import TREE

RECORDED = TREE / "tests/data/checkpoints"
_PT, _DCP = RECORDED / "checkpoint_epoch_2.pt", RECORDED / "step-4"
_RANKS = 8


def _link(source: Path, target: Path) -> None:
    """A file, or a folder with all that it holds."""
    if not source.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(source, target)
        return
    for path in source.rglob("*"):
        if path.is_file():
            _link(path, target / path.relative_to(source))


def _torch(folder: Path, step: int) -> None:
    _link(_PT, folder / f"step_{step}.pt")


def _torch_ranks(folder: Path, step: int) -> None:
    for rank in range(_RANKS):
        _link(_PT, folder / f"step_{step}_rank_{rank}.pt")


def _torch_folder(folder: Path, step: int) -> None:
    for name in ("model.pt", "optimizer.pt", "random_state.pt"):
        _link(_PT, folder / f"step_{step}" / name)


def _torch_dcp(folder: Path, step: int) -> None:
    _link(_DCP, folder / f"step-{step}")


def _megatron_dist(folder: Path, step: int) -> None:
    _link(RECORDED / "megatron-dist/iter_0000100", folder / f"iter_{step:07}")


def _megatron_legacy(folder: Path, step: int) -> None:
    for rank in range(_RANKS):
        place = folder / f"iter_{step:07}" / f"mp_rank_{rank // 4:02}_{rank % 4:03}"
        _link(_PT, place / "model_optim_rng.pt")


def _deepspeed(folder: Path, step: int) -> None:
    _link(RECORDED / "deepspeed/global_step2", folder / f"global_step{step}")


def _hf_trainer(folder: Path, step: int) -> None:
    source, target = RECORDED / "hf-trainer/checkpoint-2", folder / f"checkpoint-{step}"
    state = json.loads((source / "trainer_state.json").read_text())
    target.mkdir()
    (target / "trainer_state.json").write_text(json.dumps({**state, "global_step": step}))
    for path in source.iterdir():
        if path.name != "trainer_state.json":
            _link(path, target / path.name)


def _lightning(folder: Path, step: int) -> None:
    source = RECORDED / "lightning/lightning_logs/version_0/checkpoints/epoch=0-step=2.ckpt"
    _link(source, folder / f"epoch=0-step={step}.ckpt")


def _lightning_nested(folder: Path, step: int) -> None:
    place = folder / f"lightning_logs/version_{step}/checkpoints"
    place.mkdir(parents=True)
    _lightning(place, step)


def _lightning_sharded(folder: Path, step: int) -> None:
    target = folder / f"epoch=0-step={step}.ckpt"
    _link(_DCP, target)
    _link(_PT, target / "meta.pt")


def _nemo(folder: Path, step: int) -> None:
    target = folder / f"model--val_loss=1.5-step={step}-consumed_samples=800.0"
    _link(RECORDED / "megatron-dist/iter_0000100", target / "weights")
    (target / "context").mkdir()


def _nemo_archive(folder: Path, step: int) -> None:
    first = folder.with_name("model.nemo")
    if not first.exists():
        with tarfile.open(first, "w") as archive:
            archive.addfile(tarfile.TarInfo("model_config.yaml"), io.BytesIO())
            archive.add(_PT, "model_weights.ckpt")
    _link(first, folder / f"model_step_{step}.nemo")


def _orbax(folder: Path, step: int) -> None:
    _link(RECORDED / "orbax/10", folder / str(step))


def _tensorflow(folder: Path, step: int) -> None:
    for path in (RECORDED / "tensorflow").glob("ckpt-2.*"):
        _link(path, folder / f"ckpt-{step}{path.suffix}")


def _safetensors(folder: Path, step: int) -> None:
    _link(
        RECORDED / "safetensors/model_step_7.safetensors", folder / f"model_step_{step}.safetensors"
    )


def _dlrover(folder: Path, step: int) -> None:
    _link(_DCP, folder / str(step))
    (folder / "._dlrover_ckpt_stage").mkdir(exist_ok=True)
    (folder / "dlrover_latest.txt").write_text(str(step))


FAMILIES: Mapping[str, Callable[[Path, int], None]] = {
    ".pt": _torch,
    f".pt, {_RANKS} ranks": _torch_ranks,
    ".pt, a folder each": _torch_folder,
    "PyTorch DCP": _torch_dcp,
    "Megatron dist": _megatron_dist,
    f"Megatron legacy, {_RANKS} ranks": _megatron_legacy,
    "DeepSpeed": _deepspeed,
    "Hugging Face Trainer": _hf_trainer,
    "Lightning": _lightning,
    "Lightning, a folder each": _lightning_nested,
    "Lightning, sharded": _lightning_sharded,
    "NeMo": _nemo,
    "NeMo archive": _nemo_archive,
    "Orbax": _orbax,
    "TensorFlow": _tensorflow,
    "safetensors": _safetensors,
    "DLRover": _dlrover,
}
"""Family → writes its checkpoint of a step below a folder."""


def write(family: str, folder: Path, count: int) -> int:
    """Fills the folder with ``count`` checkpoints of a family. Returns how many files they have."""
    folder.mkdir()
    for step in range(1, count + 1):
        FAMILIES[family](folder, step)
    return sum(path.is_file() for path in folder.rglob("*"))

"""Every family of checkpoints: whole ones that the frameworks wrote are valid, torn ones are not."""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_hooks.job.checkpoints.candidate import Checkpoint
from slurm_hooks.job.checkpoints.find import Choice, candidates, judge, last_good

RECORDED = Path(__file__).parents[5] / "data" / "checkpoints"
PT, DCP = RECORDED / "checkpoint_epoch_2.pt", RECORDED / "step-4"


def found(folder: Path) -> dict[str, Checkpoint]:
    """Path below ``folder`` → the checked checkpoint."""
    judged = map(judge, candidates(folder))
    return {str(one.path.relative_to(folder)): one for one in judged}


def only(folder: Path) -> Checkpoint:
    (one,) = found(folder).values()
    return one


def choice(folder: Path) -> Choice:
    return last_good(folder, now=time.time() + 60, sleep=lambda _: None)


def copied(family: str, folder: Path) -> Path:
    return Path(shutil.copytree(RECORDED / family, folder / family))


def cut(path: Path, by: int = 1) -> None:
    path.write_bytes(path.read_bytes()[:-by])


REAL = [
    ("hf-trainer", "checkpoint-2", "hf-trainer", 2),
    ("lightning", "lightning_logs/version_0/checkpoints/epoch=0-step=2.ckpt", "lightning", 2),
    ("lightning", "lightning_logs/version_0/checkpoints/last.ckpt", "lightning", 4),
    ("tensorflow", "ckpt-2", "tensorflow", 2),
    ("deepspeed", "global_step2", "deepspeed", 2),
    ("megatron-dist", "iter_0000100", "megatron-dist", 100),
    ("safetensors", "model_step_7.safetensors", "safetensors-file", 7),
    ("torch-ranks", "step_2_rank_0.pt", "torch-ranks", 2),
    ("orbax", "10", "orbax", 10),
]


@pytest.mark.parametrize(("family", "path", "framework", "step"), REAL)
def test_a_checkpoint_written_by_the_framework_is_valid(
    family: str, path: str, framework: str, step: int
) -> None:
    one = found(RECORDED / family)[path]
    assert (one.framework, one.step, one.reason) == (framework, step, "")


TORN: list[tuple[str, str, Callable[[Path], None], str]] = [
    ("hf-trainer", "checkpoint-2/trainer_state.json", Path.unlink, "no trainer_state.json"),
    ("hf-trainer", "checkpoint-2/trainer_state.json", lambda path: cut(path, 3), "not complete"),
    ("hf-trainer", "checkpoint-2/model.safetensors", cut, "truncated (535 of 536 bytes)"),
    ("hf-trainer", "checkpoint-2/model.safetensors", Path.unlink, "no model"),
    ("hf-trainer", "checkpoint-2/optimizer.pt", cut, "optimizer.pt (truncated"),
    ("tensorflow", "ckpt-2.index", Path.unlink, "no ckpt-2.index"),
    ("tensorflow", "ckpt-2.index", cut, "no end of the table"),
    ("tensorflow", "ckpt-2.data-00000-of-00001", cut, "(400 of 401 bytes)"),
    ("tensorflow", "ckpt-2.data-00000-of-00001", Path.unlink, "(missing)"),
    ("deepspeed", "global_step2/mp_rank_00_model_states.pt", Path.unlink, "no model_states file"),
    (
        "deepspeed",
        "global_step2/zero_pp_rank_1_mp_rank_00_optim_states.pt",
        Path.unlink,
        "1 of 2 optim_states files",
    ),
    ("deepspeed", "global_step2/zero_pp_rank_1_mp_rank_00_optim_states.pt", cut, "truncated"),
    ("megatron-dist", "iter_0000100/metadata.json", Path.unlink, "no metadata.json"),
    ("megatron-dist", "iter_0000100/metadata.json", cut, "not JSON"),
    ("megatron-dist", "iter_0000100/.metadata", Path.unlink, "did not finish"),
    ("megatron-dist", "iter_0000100/__0_0.distcp", cut, "truncated shard __0_0.distcp"),
    ("safetensors", "model_step_7.safetensors", cut, "truncated (495 of 496 bytes)"),
    ("torch-ranks", "step_2_rank_0.pt", Path.unlink, "rank 0 is missing"),
    ("torch-ranks", "step_2_rank_1.pt", cut, "step_2_rank_1.pt (truncated"),
    ("orbax", "10/default/manifest.ocdbt", cut, "truncated manifest.ocdbt"),
    ("orbax", "10/default/manifest.ocdbt", Path.unlink, "no manifest.ocdbt"),
    ("orbax", "10/_CHECKPOINT_METADATA", cut, "not complete JSON"),
    ("orbax", "10/default/commit_success.txt", Path.unlink, "no commit_success.txt"),
]


@pytest.mark.parametrize(("family", "path", "tear", "reason"), TORN)
def test_a_torn_checkpoint_is_rejected(
    family: str, path: str, tear: Callable[[Path], None], reason: str, tmp_path: Path
) -> None:
    target = copied(family, tmp_path) / path
    tear(target)
    assert reason in only(tmp_path).reason


def test_orbax_without_a_commit_is_rejected(tmp_path: Path) -> None:
    metadata = copied("orbax", tmp_path) / "10" / "_CHECKPOINT_METADATA"
    facts = json.loads(metadata.read_text())
    metadata.write_text(json.dumps({**facts, "commit_timestamp_nsecs": None}))
    assert only(tmp_path).reason.startswith("not committed")


def test_orbax_before_the_rename_is_rejected(tmp_path: Path) -> None:
    step = copied("orbax", tmp_path) / "10"
    step.rename(step.with_name("10.orbax-checkpoint-tmp-1795338501"))
    assert only(tmp_path).reason == "temporary name: never finished"


def megatron_dist(folder: Path, step: int) -> Path:
    """As releases before megatron-core 0.17 wrote it: ``common.pt``, shards, ``metadata.json``."""
    path = folder / f"iter_{step:07}"
    shutil.copytree(DCP, path)
    shutil.copy(PT, path / "common.pt")
    facts = {"sharded_backend": "torch_dist", "sharded_backend_version": 1}
    (path / "metadata.json").write_text(json.dumps({**facts, "common_backend": "torch"}))
    (folder / "latest_checkpointed_iteration.txt").write_text(str(step))
    return path


def test_megatron_without_common_pt_is_torn(tmp_path: Path) -> None:
    path = megatron_dist(tmp_path, 100)
    assert only(tmp_path).valid
    (path / "common.pt").unlink()
    assert only(tmp_path).reason == "no common.pt: the save did not finish"


def test_megatron_whose_tracker_points_to_a_torn_iteration_steps_back(tmp_path: Path) -> None:
    megatron_dist(tmp_path, 100)
    (megatron_dist(tmp_path, 200) / "metadata.json").unlink()
    chosen = choice(tmp_path).chosen
    assert chosen is not None
    assert chosen.step == 100


def megatron_legacy(folder: Path, step: int, ranks: list[str]) -> None:
    for rank in ranks:
        path = folder / f"iter_{step:07}" / rank
        path.mkdir(parents=True)
        shutil.copy(PT, path / "model_optim_rng.pt")


GRID = ["mp_rank_00_000", "mp_rank_00_001", "mp_rank_01_000", "mp_rank_01_001"]


@pytest.mark.parametrize("absent", GRID)
def test_megatron_legacy_needs_every_pair_of_ranks(absent: str, tmp_path: Path) -> None:
    megatron_legacy(tmp_path, 100, GRID)
    megatron_legacy(tmp_path, 200, [rank for rank in GRID if rank != absent])
    judged = found(tmp_path)
    assert judged["iter_0000100"].valid
    assert judged["iter_0000200"].reason == "3 of 4 folders of ranks"


def test_megatron_legacy_without_the_last_pipeline_stage_is_torn(tmp_path: Path) -> None:
    """The folders alone look whole: the other iterations show that one is missing."""
    megatron_legacy(tmp_path, 100, GRID)
    megatron_legacy(tmp_path, 200, ["mp_rank_00_000", "mp_rank_01_000"])
    reason = found(tmp_path)["iter_0000200"].reason
    assert "other checkpoints here also have mp_rank_00_001, mp_rank_01_001" in reason


def test_one_rank_of_several_is_no_checkpoint(tmp_path: Path) -> None:
    for step, ranks in ((1, 4), (2, 4), (3, 1)):
        for rank in range(ranks):
            shutil.copy(PT, tmp_path / f"step_{step}_rank_{rank}.pt")
    judged = found(tmp_path)
    assert judged["step_2_rank_0.pt"].valid
    assert "also have rank 1, 2, 3" in judged["step_3_rank_0.pt"].reason
    chosen = choice(tmp_path).chosen
    assert chosen is not None
    assert chosen.step == 2


def test_the_number_of_ranks_in_the_names_counts(tmp_path: Path) -> None:
    folder = tmp_path / "global_step_8" / "actor"
    folder.mkdir(parents=True)
    for rank in range(3):
        shutil.copy(PT, folder / f"model_world_size_4_rank_{rank}.pt")
    one = only(tmp_path)
    assert (one.path, one.step) == (folder, 8)
    assert one.reason == "3 of 4 ranks: rank 3 is missing"


def test_a_run_that_goes_on_with_fewer_ranks_is_not_torn(tmp_path: Path) -> None:
    for step, ranks in ((1, 4), (2, 4), (3, 2), (4, 2)):
        for rank in range(ranks):
            shutil.copy(PT, tmp_path / f"step_{step}_rank_{rank}.pt")
    assert all(one.valid for one in found(tmp_path).values())


def test_lightnings_last_is_ordered_by_the_step_inside(tmp_path: Path) -> None:
    copied("lightning", tmp_path)
    chosen = choice(tmp_path).chosen
    assert chosen is not None
    assert (chosen.path.name, chosen.step) == ("last.ckpt", 4)


def test_a_sharded_lightning_checkpoint_needs_its_meta_file(tmp_path: Path) -> None:
    path = tmp_path / "epoch=1-step=40.ckpt"
    shutil.copytree(DCP, path)
    assert only(tmp_path).reason == "no meta.pt: the save did not finish"
    shutil.copy(PT, path / "meta.pt")
    one = only(tmp_path)
    assert (one.valid, one.step, one.framework) == (True, 40, "lightning-sharded")


def nemo(folder: Path, step: int) -> Path:
    path = folder / f"model--val_loss=1.5-step={step}-consumed_samples=800.0"
    (path / "context").mkdir(parents=True)
    megatron_dist(path, step)
    (path / f"iter_{step:07}").rename(path / "weights")
    return path


def test_nemo_with_its_marker_is_unfinished(tmp_path: Path) -> None:
    path = nemo(tmp_path, 100)
    one = only(tmp_path)
    assert (one.framework, one.step, one.reason) == ("nemo", 100, "")
    marker = tmp_path / f"{path.name}-unfinished"
    marker.touch()
    assert only(tmp_path).reason.endswith("NeMo did not finish it")


def test_nemo_with_torn_weights_is_rejected(tmp_path: Path) -> None:
    (nemo(tmp_path, 100) / "weights" / "metadata.json").unlink()
    assert only(tmp_path).reason == "weights: no metadata.json: the save did not finish"


def test_a_nemo_archive_ends_with_zeros(tmp_path: Path) -> None:
    path = tmp_path / "model_step_5.nemo"
    with tarfile.open(path, "w") as archive:
        archive.addfile(tarfile.TarInfo("model_config.yaml"), io.BytesIO())
        archive.add(PT, "model_weights.ckpt")
    assert only(tmp_path).valid
    os.truncate(path, 4096)
    assert only(tmp_path).reason == "truncated: no end of the archive"


def dlrover(folder: Path, step: int) -> None:
    shutil.copytree(DCP, folder / str(step))
    (folder / "._dlrover_ckpt_stage").mkdir(exist_ok=True)
    (folder / "dlrover_latest.txt").write_text(str(step))


def test_dlrover_with_a_stage_is_not_committed(tmp_path: Path) -> None:
    dlrover(tmp_path, 100)
    assert only(tmp_path).valid
    done = tmp_path / "._dlrover_ckpt_stage" / "100.done"
    done.mkdir()
    (done / "0").touch()
    assert only(tmp_path).reason == "not committed by DLRover: only 1 shards are saved"


def test_dlrover_ahead_of_its_tracker_is_not_committed(tmp_path: Path) -> None:
    dlrover(tmp_path, 200)
    (tmp_path / "dlrover_latest.txt").write_text("100")
    assert only(tmp_path).reason == "not committed by DLRover: dlrover_latest.txt is at 100"


def safetensors_shards(folder: Path) -> None:
    folder.mkdir()
    source = RECORDED / "safetensors" / "model_step_7.safetensors"
    names = [f"model-0000{one}-of-00002.safetensors" for one in (1, 2)]
    for name in names:
        shutil.copy(source, folder / name)
    table = {"weight_map": {f"layer.{one}": name for one, name in enumerate(names)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(table))


def test_a_shard_that_the_index_names_is_missing(tmp_path: Path) -> None:
    safetensors_shards(tmp_path / "step_5")
    assert only(tmp_path).valid
    (tmp_path / "step_5" / "model-00002-of-00002.safetensors").unlink()
    assert only(tmp_path).reason == "missing shard model-00002-of-00002.safetensors"


def test_shards_without_an_index_say_how_many_there_are(tmp_path: Path) -> None:
    safetensors_shards(tmp_path / "step_5")
    (tmp_path / "step_5" / "model.safetensors.index.json").unlink()
    (tmp_path / "step_5" / "model-00002-of-00002.safetensors").unlink()
    assert only(tmp_path).reason == "1 of 2 shards"


def test_the_final_model_beside_checkpoints_is_not_chosen(tmp_path: Path) -> None:
    """The Trainer of Hugging Face saves it there; its shards have numbers in their names."""
    folder = tmp_path / "out"
    safetensors_shards(folder)
    shutil.copytree(RECORDED / "hf-trainer" / "checkpoint-2", folder / "checkpoint-2")
    chosen = choice(folder).chosen
    assert chosen is not None
    assert chosen.path == folder / "checkpoint-2"


@pytest.mark.parametrize("length", [0xFFFF_FFFF_FFFF_FFFF, 100_000_001, 50_000_000])
def test_a_huge_safetensors_header_is_not_read(length: int, tmp_path: Path) -> None:
    path = tmp_path / "step_1.safetensors"
    path.write_bytes(struct.pack("<Q", length) + b"{" * 100)
    assert only(tmp_path).reason.startswith(("not a safetensors file", "truncated in its header"))


def test_a_folder_of_a_step_is_one_checkpoint(tmp_path: Path) -> None:
    for step in (100, 200):
        (tmp_path / f"step_{step}").mkdir()
        for name in ("model.pt", "optimizer.pt"):
            shutil.copy(PT, tmp_path / f"step_{step}" / name)
    (tmp_path / "step_200" / "optimizer.pt").unlink()
    chosen = choice(tmp_path)
    assert chosen.chosen is not None
    assert chosen.chosen.path == tmp_path / "step_100"
    assert "other checkpoints here also have optimizer.pt" in chosen.rejected[0].reason


@pytest.mark.parametrize("family", sorted({family for family, *_ in REAL}))
def test_checkpoints_in_the_folder_of_a_run_are_found(family: str, tmp_path: Path) -> None:
    shutil.copytree(RECORDED / family, tmp_path / "experiment" / "run-a" / "saved")
    assert choice(tmp_path).chosen


def test_links_to_folders_are_followed_once(tmp_path: Path) -> None:
    inside = tmp_path / "run" / "saved"
    inside.mkdir(parents=True)
    shutil.copy(PT, inside / "step_1.pt")
    for name in ("a", "b", "c"):
        (inside / name).symlink_to(tmp_path)
    assert only(tmp_path).step == 1


def test_a_folder_that_is_itself_a_checkpoint_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    shutil.copytree(DCP, folder)
    assert only(folder).path == folder


def test_an_unknown_folder_is_said_and_not_none(tmp_path: Path) -> None:
    (tmp_path / "step_9").mkdir()
    (tmp_path / "step_9" / "weights.xyz").write_bytes(b"?")
    (tmp_path / "other.xyz").write_bytes(b"?")
    picked = choice(tmp_path)
    assert picked.chosen is None
    assert [one.reason for one in picked.rejected] == ["not recognised: it holds weights.xyz"]
    assert picked.unrecognised == ("other.xyz",)


FILES = [
    "hf-trainer/checkpoint-2/trainer_state.json",
    "hf-trainer/checkpoint-2/model.safetensors",
    "tensorflow/ckpt-2.index",
    "orbax/10/default/manifest.ocdbt",
    "orbax/10/_CHECKPOINT_METADATA",
    "deepspeed/global_step2/mp_rank_00_model_states.pt",
    "megatron-dist/iter_0000100/metadata.json",
    "lightning/lightning_logs/version_0/checkpoints/epoch=0-step=2.ckpt",
]


@pytest.mark.parametrize("name", FILES)
def test_a_changed_byte_never_breaks_the_search(name: str, tmp_path: Path) -> None:
    """Whatever a file holds, the answer is valid or one line."""
    family = name.split("/", 1)[0]
    target = copied(family, tmp_path) / name.split("/", 1)[1]
    data = target.read_bytes()
    for at in sorted({*range(0, min(64, len(data)), 7), *range(0, len(data), len(data) // 12 + 1)}):
        target.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        assert all("\n" not in one.reason for one in found(tmp_path).values()), at


@pytest.mark.parametrize("name", FILES)
def test_a_named_pipe_never_blocks_the_search(name: str, tmp_path: Path) -> None:
    family = name.split("/", 1)[0]
    target = copied(family, tmp_path) / name.split("/", 1)[1]
    target.unlink()
    os.mkfifo(target)
    judged = found(tmp_path).values()
    bad = [one for one in judged if not one.valid]
    assert bad
    assert not any(one.unreadable for one in bad)

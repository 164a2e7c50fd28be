"""Complete checkpoints are chosen and truncated ones rejected, on files that torch wrote."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import time
import zipfile
from pathlib import Path

import pytest

from holdfast.adapters import safe_file
from slurm_hooks.job.checkpoints import command
from slurm_hooks.job.checkpoints.bisection import Evidence, Trial
from slurm_hooks.job.checkpoints.candidate import Checkpoint
from slurm_hooks.job.checkpoints.find import Choice, candidates, judge, last_good
from slurm_hooks.job.checkpoints.inert_pickle import Reader
from slurm_hooks.job.checkpoints.names import is_temporary, step_in

RECORDED = Path(__file__).parents[4] / "data" / "checkpoints"
ZIP, LEGACY, DCP = "checkpoint_epoch_2.pt", "legacy_step_3.pt", "step-4"


def _put(folder: Path, source: str, name: str, age_s: float = 100.0) -> Path:
    """A copy of a recorded checkpoint, last changed ``age_s`` ago."""
    target = folder / name
    if (RECORDED / source).is_dir():
        shutil.copytree(RECORDED / source, target)
    else:
        shutil.copy(RECORDED / source, target)
    _age(target, age_s)
    return target


def _age(path: Path, age_s: float) -> None:
    at = time.time() - age_s
    for one in [*path.rglob("*"), path]:
        os.utime(one, (at, at))


def _choose(folder: Path, **given: object) -> Choice:
    return last_good(folder, now=time.time(), sleep=lambda _: None, **given)  # type: ignore[arg-type]


def all_judged(folder: Path) -> list[Checkpoint]:
    return [judge(candidate) for candidate in candidates(folder)]


def _reason(folder: Path) -> str:
    (only,) = all_judged(folder)
    return only.reason


@pytest.mark.parametrize("source", [ZIP, LEGACY, DCP])
def test_a_checkpoint_written_by_torch_is_valid(source: str, tmp_path: Path) -> None:
    _put(tmp_path, source, source)
    (only,) = all_judged(tmp_path)
    assert only.valid, only.reason


@pytest.mark.parametrize(
    ("source", "step", "framework"),
    [(ZIP, 2, "torch"), (LEGACY, 3, "torch"), (DCP, 4, "torch-dcp")],
)
def test_step_and_framework_are_found(
    source: str, step: int, framework: str, tmp_path: Path
) -> None:
    _put(tmp_path, source, source)
    (only,) = all_judged(tmp_path)
    assert (only.step, only.framework) == (step, framework)


@pytest.mark.parametrize("source", [ZIP, LEGACY])
def test_a_truncated_file_is_rejected(source: str, tmp_path: Path) -> None:
    whole = (RECORDED / source).read_bytes()
    target = tmp_path / "step_1.pt"
    for size in range(0, len(whole), 37):
        target.write_bytes(whole[:size])
        assert _reason(tmp_path), f"{source} cut to {size} of {len(whole)} bytes passed as valid"


def test_a_hole_in_a_zip_is_rejected(tmp_path: Path) -> None:
    target = _put(tmp_path, ZIP, "step_1.pt")
    data = bytearray(target.read_bytes())
    with zipfile.ZipFile(target) as archive:
        object_entry = next(one for one in archive.infolist() if one.filename.endswith("data.pkl"))
    start = object_entry.header_offset + 100
    data[start : start + 500] = bytes(500)
    target.write_bytes(bytes(data))
    assert "data.pkl" in _reason(tmp_path)


def test_a_changed_byte_never_breaks_the_search(tmp_path: Path) -> None:
    """An error while reading a broken file must not hide the older, valid checkpoint."""
    _put(tmp_path, ZIP, "checkpoint_epoch_1.pt")
    for source, name in ((ZIP, "checkpoint_epoch_2.pt"), (LEGACY, "checkpoint_epoch_3.pt")):
        data = (RECORDED / source).read_bytes()
        for at in (*range(min(200, len(data))), *range(max(0, len(data) - 700), len(data))):
            (tmp_path / name).write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
            assert _choose(tmp_path).chosen, (source, at)
        (tmp_path / name).unlink()


@pytest.mark.parametrize("kind", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_damaged_compressed_checkpoint_is_rejected(tmp_path: Path, kind: int) -> None:
    path = tmp_path / "checkpoint_epoch_2.pt"
    with zipfile.ZipFile(path, "w", kind) as archive:
        archive.writestr("a/data.pkl", pickle.dumps(list(range(1000)), protocol=2))
    whole = path.read_bytes()
    path.write_bytes(whole[:80] + bytes(40) + whole[120:])
    assert _reason(tmp_path).startswith("data.pkl cannot be read")


def test_a_compression_method_that_torch_does_not_use_is_rejected(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "step_1.pt", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("a/data.pkl", pickle.dumps([1]))
    assert _reason(tmp_path) == "data.pkl is compressed by a method that torch does not use"


def test_a_legacy_file_with_invalid_keys_is_rejected(tmp_path: Path) -> None:
    parts: tuple[object, ...] = (0x1950A86A20F9469CFC6C, 1001, {}, {}, [["0"]])
    data = b"".join(pickle.dumps(part, protocol=2) for part in parts)
    (tmp_path / "step_3.pt").write_bytes(data + bytes(24))
    assert _reason(tmp_path) == "legacy file without its list of storages"


def test_a_file_of_zeros_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "step_1.pt").write_bytes(bytes(4096))
    assert "zeros" in _reason(tmp_path)


def test_any_other_zip_is_rejected(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "step_1.pt", "w") as archive:
        archive.writestr("readme.txt", "no checkpoint")
    assert "data.pkl" in _reason(tmp_path)


def test_a_text_file_with_a_checkpoints_name_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "step_1.pt").write_text("hello")
    assert "neither" in _reason(tmp_path)


def test_dcp_without_metadata_did_not_finish(tmp_path: Path) -> None:
    (_put(tmp_path, DCP, DCP) / ".metadata").unlink()
    assert "did not finish" in _reason(tmp_path)


def test_dcp_with_half_its_metadata_is_rejected(tmp_path: Path) -> None:
    metadata = _put(tmp_path, DCP, DCP) / ".metadata"
    metadata.write_bytes(metadata.read_bytes()[:3000])
    assert "cannot be read" in _reason(tmp_path)


def test_dcp_without_a_shard_is_rejected(tmp_path: Path) -> None:
    (_put(tmp_path, DCP, DCP) / "__1_0.distcp").unlink()
    assert _reason(tmp_path) == "missing shard __1_0.distcp"


def test_dcp_with_an_empty_shard_is_rejected(tmp_path: Path) -> None:
    (_put(tmp_path, DCP, DCP) / "__0_0.distcp").write_bytes(b"")
    assert _reason(tmp_path) == "empty shard __0_0.distcp"


def test_dcp_with_a_short_shard_is_rejected(tmp_path: Path) -> None:
    shard = _put(tmp_path, DCP, DCP) / "__1_0.distcp"
    shard.write_bytes(shard.read_bytes()[:-1])
    assert "truncated shard __1_0.distcp (23175 of 23176 bytes)" in _reason(tmp_path)


def test_a_hostile_pickle_runs_nothing(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, ...]:
            return (os.system, (f"touch {tmp_path}/ran",))

    metadata = _put(tmp_path, DCP, DCP) / ".metadata"
    metadata.write_bytes(pickle.dumps({"state_dict_metadata": Bomb()}))
    assert _reason(tmp_path) == ""
    with metadata.open("rb") as file:
        Reader(file).next()
    assert not (tmp_path / "ran").exists()


def test_the_newest_valid_checkpoint_is_chosen_and_rejected_ones_have_a_reason(
    tmp_path: Path,
) -> None:
    for epoch in (5, 10, 15):
        _put(tmp_path, ZIP, f"checkpoint_epoch_{epoch}.pt")
    torn = tmp_path / "checkpoint_epoch_15.pt"
    torn.write_bytes(torn.read_bytes()[:4000])
    (tmp_path / "checkpoint_epoch_20.pt.tmp").write_bytes(b"PK")
    choice = _choose(tmp_path)
    assert choice.chosen is not None
    assert choice.chosen.step == 10
    assert [checkpoint.step for checkpoint in choice.rejected] == [20, 15]
    assert "temporary name" in choice.rejected[0].reason


def test_names_with_different_units_are_ordered_by_age(tmp_path: Path) -> None:
    _put(tmp_path, ZIP, "checkpoint_epoch_9.pt", age_s=50)
    _put(tmp_path, ZIP, "step_400.pt", age_s=500)
    choice = _choose(tmp_path)
    assert choice.chosen is not None
    assert choice.chosen.path.name == "checkpoint_epoch_9.pt"


def test_a_file_without_a_number_comes_after_numbered_ones(tmp_path: Path) -> None:
    _put(tmp_path, ZIP, "trained_model.pt", age_s=10)
    _put(tmp_path, ZIP, "checkpoint_epoch_1.pt", age_s=500)
    assert [candidate.step for candidate in candidates(tmp_path)] == [1, None]


def test_a_link_to_a_sibling_counts_once(tmp_path: Path) -> None:
    _put(tmp_path, ZIP, "step_1.pt")
    (tmp_path / "last.pt").symlink_to("step_1.pt")
    assert [candidate.path.name for candidate in candidates(tmp_path)] == ["step_1.pt"]


def test_an_empty_or_missing_folder_has_none(tmp_path: Path) -> None:
    assert _choose(tmp_path) == Choice(chosen=None)
    assert _choose(tmp_path / "not-there") == Choice(chosen=None)


def test_a_checkpoint_that_is_being_written_is_rejected(tmp_path: Path) -> None:
    _put(tmp_path, ZIP, "step_1.pt")
    growing = _put(tmp_path, ZIP, "step_2.pt", age_s=0)
    choice = last_good(tmp_path, now=time.time(), sleep=lambda _: os.utime(growing, (1e9, 1e9)))
    assert choice.chosen is not None
    assert choice.chosen.step == 1
    assert choice.rejected[0].reason == "still being written"


def test_a_checkpoint_with_failed_attempts_is_skipped_if_there_is_an_older_one(
    tmp_path: Path,
) -> None:
    failing = _put(tmp_path, ZIP, "step_2.pt")
    at = time.time()
    evidence = Evidence(bad=(Trial(path=str(failing), step=2, ended_at=at),))
    alone = _choose(tmp_path, evidence=evidence).chosen
    assert alone is not None  # the only one: better than none
    _put(tmp_path, ZIP, "step_1.pt")
    choice = _choose(tmp_path, evidence=evidence)
    assert choice.chosen is not None
    assert choice.chosen.step == 1
    assert "failed" in choice.rejected[0].reason


def test_an_unreadable_checkpoint_prevents_a_start_from_the_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _put(tmp_path, ZIP, "step_1.pt")

    def refused(*_: object, **__: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(
        safe_file, "open_regular", refused
    )  # the tests may run as root, which can read anything
    found = judge(next(iter(candidates(tmp_path))))
    assert found.path == path
    assert found.unreadable
    assert found.reason == "cannot be read: Permission denied"
    assert _choose(tmp_path).unreadable


def test_truncated_checkpoints_do_not_prevent_a_start(tmp_path: Path) -> None:
    (tmp_path / "step_1.pt").write_bytes(b"PK\x03\x04")
    choice = _choose(tmp_path)
    assert choice.chosen is None
    assert not choice.unreadable


def test_a_thousand_checkpoints_are_checked(tmp_path: Path) -> None:
    for step in range(500):
        os.link(RECORDED / ZIP, tmp_path / f"step_{step}.pt")
        folder = tmp_path / f"step-{1000 + step}"
        folder.mkdir()
        for file in (RECORDED / DCP).iterdir():
            os.link(file, folder / file.name)
    found = all_judged(tmp_path)
    assert len(found) == 1000
    assert all(checkpoint.valid for checkpoint in found)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("checkpoint_epoch_15", (15, "epoch")),
        ("step_200", (200, "step")),
        ("step-1000", (1000, "step")),
        ("checkpoint-7", (7, "number")),
        ("iter_0000100", (100, "step")),
        ("global_step900", (900, "step")),
        ("llama-7b_step_12", (12, "step")),
        ("epoch=3-step=1200", (1200, "step")),
        ("model_00042", (42, "number")),
        ("trained_model", (None, "")),
        ("footstep9", (9, "number")),
    ],
)
def test_steps_in_names(name: str, expected: tuple[int | None, str]) -> None:
    assert step_in(name) == expected


@pytest.mark.parametrize(
    "name", ["a.pt.tmp", ".a.pt", "tmp_step_5", "step-5.tmp", "step-5-unfinished", "a.pt~"]
)
def test_temporary_names(name: str) -> None:
    assert is_temporary(name)


@pytest.mark.parametrize(
    "name", ["a.pt", "step-5", "template_5.pt", "checkpoint_epoch_5.pt", "attempt_3.pt"]
)
def test_ordinary_names(name: str) -> None:
    assert not is_temporary(name)


def test_the_command_lists_newest_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _put(tmp_path, ZIP, "step_1.pt")
    (tmp_path / "step_2.pt").write_bytes(b"")
    assert command.main([str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "path": f"{tmp_path}/step_2.pt",
            "framework": "torch",
            "step": 2,
            "valid": False,
            "reason": "empty file",
        },
        {
            "path": f"{tmp_path}/step_1.pt",
            "framework": "torch",
            "step": 1,
            "valid": True,
            "reason": "",
        },
    ]
    assert command.main([str(tmp_path)]) == 0
    assert "yes, resumes from here" in capsys.readouterr().out


def test_the_exit_status_for_no_checkpoint_and_for_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([str(tmp_path)]) == 1
    assert command.main([str(tmp_path / "nowhere")]) == 2
    assert "No such file or directory; give the folder" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert command.main([str(tmp_path / "file")]) == 2
    assert "Not a directory; give the folder" in capsys.readouterr().err

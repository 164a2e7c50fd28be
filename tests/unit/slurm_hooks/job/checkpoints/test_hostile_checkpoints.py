"""Checkpoints that a user made to block, exhaust or mislead the reader."""

from __future__ import annotations

import os
import resource
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_hooks.job.checkpoints import command
from slurm_hooks.job.checkpoints.candidate import Checkpoint
from slurm_hooks.job.checkpoints.find import candidates, judge
from slurm_hooks.job.checkpoints.frameworks import torch_dcp, torch_file

RECORDED = Path(__file__).parents[4] / "data" / "checkpoints"
TOP = Path(__file__).parents[5]


def only(folder: Path) -> Checkpoint:
    (candidate,) = candidates(folder)
    return judge(candidate)


def good(folder: Path, name: str = "step_1.pt") -> None:
    shutil.copy(RECORDED / "checkpoint_epoch_2.pt", folder / name)


def command_on(folder: Path, *, memory_bytes: int = 1 << 30, wait_s: float = 60.0) -> str:
    """The command's output, from a process with limited memory."""

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))

    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "checkpoints", str(folder)],
        capture_output=True,
        text=True,
        timeout=wait_s,
        cwd=TOP,
        preexec_fn=bound,
        check=False,
    )
    return done.stdout + done.stderr


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(("make", "kind"), [(pipe, "a named pipe"), (device, "a device")])
def test_a_special_file_is_not_a_checkpoint_and_does_not_prevent_a_start(
    make: Callable[[Path], None], kind: str, tmp_path: Path
) -> None:
    make(tmp_path / "step_9.pt")
    found = only(tmp_path)
    assert found.reason == f"not a checkpoint: not a regular file: {kind}"
    assert not found.unreadable


@pytest.mark.parametrize("name", [".metadata", "__0_0.distcp"])
@pytest.mark.parametrize("make", [pipe, device])
def test_a_special_file_inside_a_checkpoint_folder(
    name: str, make: Callable[[Path], None], tmp_path: Path
) -> None:
    shutil.copytree(RECORDED / "step-4", tmp_path / "step-4")
    (tmp_path / "step-4" / name).unlink()
    make(tmp_path / "step-4" / name)
    found = only(tmp_path)
    assert found.reason.startswith("not a checkpoint: ")
    assert "not a regular file" in found.reason
    assert not found.unreadable


def test_a_zip_directory_of_gigabytes(tmp_path: Path) -> None:
    """A sparse file whose end-of-directory record gives a directory of 3 GiB of zeros."""
    size = 3 << 30
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, size, 4, 0)
    with (tmp_path / "step_1.pt").open("wb") as file:
        file.write(b"PK\3\4")
        file.seek(size, os.SEEK_CUR)
        file.write(end)
    assert only(tmp_path).reason.startswith(
        "not a checkpoint: its central directory is larger than torch writes"
    )


def test_a_zip_with_too_many_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_file, "_MAX_DIRECTORY_BYTES", 4096)
    monkeypatch.setattr(torch_file, "_MAX_PICKLE_BYTES", 64)
    with zipfile.ZipFile(tmp_path / "step_1.pt", "w") as archive:
        for number in range(200):
            archive.writestr(f"a/data/{number}", b"")
    assert "central directory is larger" in only(tmp_path).reason


def test_a_pickle_that_allocates_all_memory_is_rejected(tmp_path: Path) -> None:
    """LONG_BINPUT with the largest index allocates that many entries (pickletools, LONG_BINPUT)."""
    good(tmp_path)
    (tmp_path / "step_2.pt").write_bytes(b"\x80\x02K\x01r\xff\xff\xff\xff.")
    output = command_on(tmp_path)
    assert "step_2.pt" in output
    assert "neither a zip archive nor torch's legacy format" in output
    assert "yes, resumes from here" in output


def endless() -> bytes:
    """A dictionary of 200,000 keys whose hashes are all 0: each is compared with all before it."""
    keys = (number * (2**61 - 1) for number in range(1, 200_001))
    items = (b"\x8a\x0b" + key.to_bytes(11, "little") + b"K\x01" for key in keys)
    return b"\x80\x02}(" + b"".join(items) + b"u."


def test_a_pickle_that_takes_too_long_is_rejected_at_its_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good(tmp_path)
    (tmp_path / "step_2.pt").write_bytes(endless())
    monkeypatch.setattr(command, "_ONE_S", 1.0)
    assert command.main([str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "cannot be read: no answer in 1 s" in output
    assert "yes, resumes from here" in output


def test_all_checkpoints_together_have_a_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for step in range(3):
        (tmp_path / f"step_{step}.pt").write_bytes(endless())
    monkeypatch.setattr(command, "_ONE_S", 1.0)
    monkeypatch.setattr(command, "_ALL_S", 1.0)
    assert command.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.count("no time left") == 2


def test_folders_with_too_many_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(RECORDED / "step-4", tmp_path / "step-4")
    monkeypatch.setattr(torch_dcp, "MAX_ENTRIES", 2)
    assert only(tmp_path).reason.startswith("cannot be read: more than 2 entries")


def test_control_characters_in_names_are_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "step_1\x1b]0;owned\x07.pt").write_bytes(b"")
    assert command.main([str(tmp_path)]) == 1
    assert command.main(["--json", str(tmp_path)]) == 1
    assert command.main([f"{tmp_path}/\x1b[2J"]) == 2
    output = capsys.readouterr()
    assert "\x1b" not in output.out + output.err
    assert r"step_1\x1b]0;owned\x07.pt" in output.out

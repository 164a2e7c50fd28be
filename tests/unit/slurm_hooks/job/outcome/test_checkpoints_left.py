"""Whether an attempt made progress: unknown is not zero, and the program's own format counts."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_hooks.job.checkpoints.find import Choice, last_good
from slurm_hooks.job.outcome import checkpoints_left


def _save(folder: Path, name: str) -> None:
    with zipfile.ZipFile(folder / name, "w") as archive:
        archive.writestr("archive/data.pkl", b"x")
        archive.writestr("archive/version", b"3")


def _choice(folder: Path) -> Choice:
    return last_good(folder, now=1e12, sleep=lambda _: None)


def _own(folder: Path, name: str) -> None:
    (folder / name).mkdir()
    (folder / name / "weights.own").write_bytes(b"x")


def test_a_newer_step_is_progress_and_an_older_one_is_not(tmp_path: Path) -> None:
    _save(tmp_path, "step_5.pt")
    choice = _choice(tmp_path)
    assert checkpoints_left.left(tmp_path, choice).progressed is False
    _save(tmp_path, "step_4.pt")
    assert checkpoints_left.left(tmp_path, choice).progressed is False
    _save(tmp_path, "step_6.pt")
    assert checkpoints_left.left(tmp_path, choice).progressed is True


def test_the_first_checkpoint_is_progress_also_without_a_step(tmp_path: Path) -> None:
    choice = _choice(tmp_path)
    assert checkpoints_left.left(tmp_path, choice).progressed is False
    _save(tmp_path, "model.pt")
    assert checkpoints_left.left(tmp_path, choice).progressed is True


def test_a_checkpoint_without_a_step_that_was_written_again_tells_nothing(tmp_path: Path) -> None:
    _save(tmp_path, "model.pt")
    os.utime(tmp_path / "model.pt", (1000, 1000))
    choice = _choice(tmp_path)
    assert checkpoints_left.left(tmp_path, choice).progressed is False
    os.utime(tmp_path / "model.pt", (2000, 2000))
    assert checkpoints_left.left(tmp_path, choice).progressed is None


def test_epochs_and_steps_are_not_compared(tmp_path: Path) -> None:
    _save(tmp_path, "step_400.pt")
    choice = _choice(tmp_path)
    _save(tmp_path, "epoch_9.pt")
    assert checkpoints_left.left(tmp_path, choice).progressed is None


def test_a_higher_step_in_a_format_that_is_not_recognised_is_progress(tmp_path: Path) -> None:
    _own(tmp_path, "step_5")
    choice = _choice(tmp_path)
    assert choice.chosen is None
    assert checkpoints_left.left(tmp_path, choice).progressed is False
    _own(tmp_path, "step_3")
    assert checkpoints_left.left(tmp_path, choice).progressed is False
    _own(tmp_path, "step_6")
    assert checkpoints_left.left(tmp_path, choice).progressed is True


@pytest.mark.parametrize(
    ("error", "unreadable"), [(5, "Input/output error"), (116, "Stale file handle"), (13, "")]
)
def test_a_folder_that_cannot_be_read_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, unreadable: str
) -> None:
    _save(tmp_path, "step_5.pt")
    choice = _choice(tmp_path)

    def survey(_: Path) -> Callable[[], None]:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(checkpoints_left, "survey", survey)
    left = checkpoints_left.left(tmp_path, choice)
    assert (left.newest, left.progressed, left.unreadable) == (None, None, unreadable)


def test_a_folder_that_has_disappeared_tells_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    assert checkpoints_left.left(tmp_path / "never", Choice(chosen=None)).progressed is False
    _save(folder, "step_5.pt")
    choice = _choice(folder)
    folder.rename(tmp_path / "other")
    assert checkpoints_left.left(folder, choice).progressed is None

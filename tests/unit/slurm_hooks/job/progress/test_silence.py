"""When an attempt counts as hung."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from slurm_hooks.job.progress.folder_state import Abandonable, folder_state
from slurm_hooks.job.progress.silence import HangLimits, Silence


def test_output_is_progress() -> None:
    silence = Silence(0.0)
    assert silence.look(50.0, heard_at=0.0) == 50.0
    assert silence.look(100.0, heard_at=80.0) == 20.0
    assert silence.look(110.0, heard_at=80.0) == 30.0


def test_a_change_of_the_checkpoint_folder_is_progress_and_its_first_sight_is_not() -> None:
    silence = Silence(0.0)
    silence.look(60.0, heard_at=0.0)
    assert silence.look_at_folder(60.0, (1, 5, 7)) == 60.0
    assert silence.look_at_folder(70.0, (1, 5, 7)) == 70.0
    assert silence.look_at_folder(80.0, (1, 6, 8)) == 0.0
    assert silence.look_at_folder(90.0, None) == 10.0, "a folder that is not read tells nothing"
    assert silence.look_at_folder(95.0, (1, 6, 8)) == 15.0


def test_the_time_in_which_the_job_was_suspended_does_not_count() -> None:
    silence = Silence(0.0)
    silence.look(60.0, heard_at=0.0)
    assert silence.look(4000.0, heard_at=0.0) == 0.0
    assert silence.look(4005.0, heard_at=0.0) == 5.0


@pytest.mark.parametrize(
    ("hangs", "timeout_s"), [(0, 600.0), (1, 1200.0), (2, 2400.0), (9, 2400.0)]
)
def test_each_hang_without_progress_doubles_the_timeout(hangs: int, timeout_s: float) -> None:
    assert HangLimits(timeout_s=600.0, report_s=1800.0).after(hangs).timeout_s == timeout_s


def test_without_limits_nothing_is_looked_at() -> None:
    assert HangLimits().after(3).first_look_s is None
    assert HangLimits(report_s=1800.0).first_look_s == 900.0
    assert HangLimits(timeout_s=60.0, report_s=1800.0).first_look_s == 30.0


def test_the_state_of_a_folder_changes_with_each_file_and_with_its_size(tmp_path: Path) -> None:
    (tmp_path / "step_5").mkdir()
    seen = {folder_state(tmp_path)}
    (tmp_path / "step_5" / "model.pt.tmp").write_bytes(b"1")
    seen.add(folder_state(tmp_path))
    (tmp_path / "step_5" / "model.pt.tmp").write_bytes(b"22")
    seen.add(folder_state(tmp_path))
    (tmp_path / "step_5" / "model.pt.tmp").replace(tmp_path / "model.pt")
    seen.add(folder_state(tmp_path))
    assert len(seen) == 4
    assert folder_state(tmp_path) in seen


def test_the_journal_and_what_links_lead_to_are_no_progress(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    (folder / "link").symlink_to(other)
    (folder / ".holdfast").mkdir()
    before = folder_state(folder)
    (other / "file").write_bytes(b"x")
    (folder / ".holdfast" / "job-7.jsonl").write_bytes(b"x")
    assert folder_state(folder) == before


def test_storage_that_does_not_answer_is_not_waited_for() -> None:
    """And is not asked again before it has answered: one thread is left behind, not many."""
    answer, calls = threading.Event(), []

    def call() -> int:
        calls.append(1)
        answer.wait(60)
        return 7

    folder = Abandonable(call, timeout_s=0.05)
    assert folder.result() is None
    assert folder.result() is None
    assert len(calls) == 1
    answer.set()
    end = time.monotonic() + 60
    while (result := folder.result()) is None and time.monotonic() < end:
        time.sleep(0.01)
    assert (result, len(calls)) == (7, 2)


def test_an_error_of_the_storage_tells_nothing(tmp_path: Path) -> None:
    assert Abandonable(lambda: folder_state(tmp_path / "gone"), 60.0).result() is None

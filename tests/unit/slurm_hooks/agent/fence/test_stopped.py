"""What an agent has stopped is known to the next one."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_hooks.agent.fence.stopped import Stopped
from slurm_hooks.agent.fence.tasks import Attempt
from slurm_hooks.job.fence.newer import Run

_ONE = Attempt(7, "/mnt/c/.holdfast/job-7.jsonl", 2, Run(1, 50.0))
_OTHER = Attempt(8, "/mnt/c/.holdfast/job-8.jsonl", 1, Run(0, 10.0))


def test_it_outlives_the_agent(tmp_path: Path) -> None:
    assert Stopped(tmp_path).keep(frozenset({_ONE, _OTHER})) == ""
    assert Stopped(tmp_path).of({7}) == {_ONE}
    assert Stopped(tmp_path).of({7, 8}) == {_ONE, _OTHER}


def test_nothing_is_written_while_nothing_changes(tmp_path: Path) -> None:
    assert Stopped(tmp_path).keep(frozenset()) == ""
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    assert Stopped(tmp_path / "none").keep(frozenset({_ONE})) == "No such file or directory"


@pytest.mark.parametrize("text", ["", "{", "[1]", '[["7", "/c", 1, []]]', "[[1, 2, 3, 4, 5]]"])
def test_a_damaged_file_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / "stopped.json").write_text(text)
    assert Stopped(tmp_path).of({1, 7}) == frozenset()

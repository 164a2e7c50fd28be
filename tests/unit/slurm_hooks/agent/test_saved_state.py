"""The tracked state is written when it changed, and again while the disk refuses it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.config.schema import PathsConfig
from slurm_hooks.agent.saved_state import SavedState
from slurm_hooks.tracking import store
from slurm_hooks.tracking.node import TrackedState
from slurm_hooks.worker import bounded_write


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PathsConfig:
    monkeypatch.setattr(bounded_write, "_DEADLINE_S", 60.0)  # this machine may be busy
    return PathsConfig(run=tmp_path / "run", state=tmp_path / "state")


def test_only_a_changed_state_is_written(paths: PathsConfig) -> None:
    state = SavedState(paths)
    file = store.path_in(paths.state)
    state.save(state.recalled)
    assert not file.exists()
    changed = replace(TrackedState(), boot_id="b", kmsg_seq=7)
    state.save(changed)
    assert SavedState(paths).recalled == changed
    file.unlink()
    state.save(changed)
    assert not file.exists()


def test_a_state_that_could_not_be_written_is_tried_again(
    paths: PathsConfig, capfd: pytest.CaptureFixture[str]
) -> None:
    state = SavedState(paths)
    paths.state.parent.mkdir(parents=True, exist_ok=True)
    paths.state.write_text("a file where the folder should be")
    changed = replace(TrackedState(), boot_id="b")
    for _ in range(2):
        state.save(changed)
        assert state.problem
    assert capfd.readouterr().err.count("tracked state not written") == 1
    paths.state.unlink()
    state.save(changed)
    assert state.problem == ""
    assert SavedState(paths).recalled == changed

"""Storage that does not answer for a while: the job waits, and starts from its newest checkpoint."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from slurm_hooks.job.checkpoints.candidate import Checkpoint
from slurm_hooks.job.checkpoints.find import Choice
from slurm_hooks.job.checkpoints.storage_errors import TRANSIENT, names_transient
from slurm_hooks.job.resume import storage_wait
from slurm_hooks.job.resume.storage_wait import choose_when_readable, wait_until_readable

HALF_AN_HOUR_S = 1800.0


class Clock:
    """Counts the time that was waited."""

    def __init__(self) -> None:
        self.now = 0.0

    def pause(self, seconds: float) -> bool:
        self.now += seconds
        return True


@pytest.mark.parametrize("number", sorted(TRANSIENT))
def test_an_outage_of_half_an_hour_is_waited_for(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()

    def scan(*_: object, **__: object) -> object:
        if clock.now < HALF_AN_HOUR_S:
            raise OSError(number, os.strerror(number))
        return iter(())

    monkeypatch.setattr("holdfast.adapters.safe_file.scan", scan)
    (tmp_path / "journal").touch()
    assert wait_until_readable(tmp_path, tmp_path / "journal", clock.pause) == ""
    assert clock.now >= HALF_AN_HOUR_S


def test_an_outage_that_stays_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def scan(*_: object, **__: object) -> object:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr("holdfast.adapters.safe_file.scan", scan)
    clock = Clock()
    error = wait_until_readable(tmp_path, tmp_path / "journal", clock.pause)
    assert (error, clock.now) == ("Stale file handle", sum(storage_wait.DELAYS_S))
    assert wait_until_readable(tmp_path, tmp_path / "journal", lambda _: False) == error


@pytest.mark.parametrize("name", ["", "new", "file/x"])
def test_a_missing_or_forbidden_folder_is_not_waited_for(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    clock = Clock()
    assert wait_until_readable(tmp_path / name, tmp_path / "no" / "journal", clock.pause) == ""
    assert clock.now == 0


def _checkpoint(step: int, reason: str = "", *, unreadable: bool = False) -> Checkpoint:
    return Checkpoint(
        path=Path(f"/c/step_{step}.pt"),
        framework="torch",
        step=step,
        changed_at=0.0,
        reason=reason,
        unreadable=unreadable,
    )


HIDDEN = _checkpoint(9, "cannot be read: Input/output error", unreadable=True)


def _after(clock: Clock, seconds: float, before: Choice) -> Choice:
    return Choice(chosen=_checkpoint(9)) if clock.now >= seconds else before


def test_a_newer_checkpoint_that_cannot_be_read_is_waited_for_half_a_minute() -> None:
    older = Choice(chosen=_checkpoint(8), rejected=(HIDDEN,))
    clock = Clock()
    choice = choose_when_readable(lambda: _after(clock, 25, older), clock.pause)
    assert choice.chosen == _checkpoint(9)
    clock = Clock()
    choice = choose_when_readable(lambda: _after(clock, 60, older), clock.pause)
    assert (choice, clock.now) == (older, 30)


def test_the_only_checkpoints_are_waited_for_longer() -> None:
    none = Choice(chosen=None, rejected=(HIDDEN,))
    clock = Clock()
    choice = choose_when_readable(lambda: _after(clock, HALF_AN_HOUR_S, none), clock.pause)
    assert choice.chosen == _checkpoint(9)


@pytest.mark.parametrize(
    "rejected",
    [
        _checkpoint(9, "truncated"),
        _checkpoint(9, "cannot be read: Permission denied", unreadable=True),
    ],
)
def test_a_broken_or_forbidden_checkpoint_is_not_waited_for(rejected: Checkpoint) -> None:
    clock = Clock()
    choice = Choice(chosen=None, rejected=(rejected,))
    assert choose_when_readable(lambda: choice, clock.pause) == choice
    assert clock.now == 0
    assert not names_transient(rejected.reason)

"""What is asked of a box is checked, and what is prepared for it is readable."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from testbed.errors import SandboxError
from testbed.running_box import RunningBox
from testbed.shape import Shape
from testbed.startup import lifecycle

BOX = RunningBox(
    folder=Path("/nowhere"),
    shape=Shape(name="b", nodes=1, slurm="24.11", root="/", layers=(), hooks=True, bridge=True),
    pid=1,
    started=0,
)


def test_the_first_failure_is_raised_although_the_other_part_takes_minutes() -> None:
    minutes, end = threading.Event(), threading.Event()

    def fails() -> None:
        assert minutes.wait(10)
        raise SandboxError("no mirror")

    def takes_minutes() -> None:
        minutes.set()
        end.wait(60)

    try:
        for parts in ((fails, takes_minutes), (takes_minutes, fails)):
            minutes.clear()
            with pytest.raises(SandboxError, match="no mirror"):
                lifecycle.both(*parts)
            assert not end.is_set()
    finally:
        end.set()
    assert lifecycle.both(lambda: 1, lambda: "two") == (1, "two")


def test_files_of_a_box_are_readable_by_its_users_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with lifecycle._readable_by_all():
            (tmp_path / "layer").mkdir()
        assert (tmp_path / "layer").stat().st_mode & 0o777 == 0o755
        (tmp_path / "own").mkdir()
        assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)


def test_pods_are_refused_where_they_cannot_run() -> None:
    with pytest.raises(SandboxError, match="end it first: scripts/sandbox down --name b"):
        lifecycle._same_shape(BOX, lifecycle.Order(name="b", pods=True))
    lifecycle._same_shape(BOX, lifecycle.Order(name="b"))
    with pytest.raises(SandboxError, match="--pods and --root"):
        lifecycle._check(lifecycle.Order(name="b", root="/somewhere", pods=True))


def test_a_box_without_holdfast_is_another_box() -> None:
    with pytest.raises(SandboxError, match="b' is up with Holdfast; end it first: scripts/sandbox"):
        lifecycle._same_shape(BOX, lifecycle.Order(name="b", holdfast=False))
    with pytest.raises(SandboxError, match="--pods and --without-holdfast"):
        lifecycle._check(lifecycle.Order(name="b", holdfast=False, pods=True))


def test_a_box_keeps_its_way_to_authenticate() -> None:
    lifecycle._same_shape(BOX, lifecycle.Order(name="b", auth="munge"))
    with pytest.raises(SandboxError, match="up with auth/munge; end it first"):
        lifecycle._same_shape(BOX, lifecycle.Order(name="b", auth="slurm"))
    with pytest.raises(SandboxError, match="--auth key: use one of munge, slurm"):
        lifecycle._check(lifecycle.Order(name="b", auth="key"))

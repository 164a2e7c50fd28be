"""A box that cannot start reports the cause, and only the cause."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from testbed import control_plane, kube, startup
from testbed.errors import SandboxError
from testbed.running_box import RunningBox
from testbed.shape import Shape

BOX = RunningBox(
    folder=Path("/nowhere"),
    shape=Shape(name="b", nodes=1, slurm="24.11", root="/", layers=(), hooks=True, bridge=True),
    pid=1,
    started=0,
)


@pytest.mark.parametrize("pid", [-5, 0, 10**30])
def test_an_owner_pid_that_is_no_process_is_refused(pid: int) -> None:
    with pytest.raises(SandboxError, match=f"--owner-pid {pid}: no such process"):
        startup._open_owner(pid)


def test_the_part_that_failed_is_reported_and_not_the_one_that_was_ended_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = threading.Event()

    def slurm(*_: object) -> None:
        assert ended.wait(10)
        raise SandboxError("boot ended with -9")

    def plane(*_: object) -> None:
        raise SandboxError("etcd ended at once")

    monkeypatch.setattr(startup, "_boot_slurm", slurm)
    monkeypatch.setattr(control_plane, "start", plane)
    monkeypatch.setattr(startup, "end_namespace", lambda _: ended.set())
    with pytest.raises(SandboxError, match="etcd ended at once"):
        startup._boot(BOX)


def test_a_kubernetes_daemon_that_exited_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ready(_: object, *, alive: object) -> None:
        assert callable(alive)
        alive()

    monkeypatch.setattr(
        RunningBox, "ask", lambda _, verb, name="": {"daemons": {"kube-apiserver": 7}}
    )
    daemons = [SimpleNamespace(name="kube-apiserver"), SimpleNamespace(name="etcd")]
    plane = SimpleNamespace(daemons=lambda: daemons)
    monkeypatch.setattr(control_plane, "_plane", lambda *_: plane)
    monkeypatch.setattr(kube, "wait_ready", ready)
    with pytest.raises(SandboxError, match="etcd ended at once"):
        control_plane.start(BOX, print)


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
                startup.both(*parts)
            assert not end.is_set()
    finally:
        end.set()
    assert startup.both(lambda: 1, lambda: "two") == (1, "two")


def test_files_of_a_box_are_readable_by_its_users_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with startup._readable_by_all():
            (tmp_path / "layer").mkdir()
        assert (tmp_path / "layer").stat().st_mode & 0o777 == 0o755
        (tmp_path / "own").mkdir()
        assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)


def test_pods_are_refused_where_they_cannot_run() -> None:
    with pytest.raises(SandboxError, match="end it first: scripts/sandbox down --name b"):
        startup._same_shape(BOX, startup.Order(name="b", pods=True))
    startup._same_shape(BOX, startup.Order(name="b"))
    with pytest.raises(SandboxError, match="--pods and --root"):
        startup._check(startup.Order(name="b", root="/somewhere", pods=True))

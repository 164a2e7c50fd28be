"""A box that cannot start reports the cause, and only the cause."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from testbed import kube
from testbed.errors import SandboxError
from testbed.running_box import RunningBox
from testbed.shape import Shape
from testbed.startup import boot, control_plane

BOX = RunningBox(
    folder=Path("/nowhere"),
    shape=Shape(name="b", nodes=1, slurm="24.11", root="/", layers=(), hooks=True, bridge=True),
    pid=1,
    started=0,
)


@pytest.mark.parametrize("pid", [-5, 0, 10**30])
def test_an_owner_pid_that_is_no_process_is_refused(pid: int) -> None:
    with pytest.raises(SandboxError, match=f"--owner-pid {pid}: no such process"):
        boot._open_owner(pid)


def test_the_part_that_failed_is_reported_and_not_the_one_that_was_ended_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = threading.Event()

    def slurm(*_: object) -> None:
        assert ended.wait(10)
        raise SandboxError("boot ended with -9")

    def plane(*_: object) -> None:
        raise SandboxError("etcd ended at once")

    monkeypatch.setattr(boot, "_boot_slurm", slurm)
    monkeypatch.setattr(control_plane, "start", plane)
    monkeypatch.setattr(boot, "end_namespace", lambda _: ended.set())
    with pytest.raises(SandboxError, match="etcd ended at once"):
        boot._boot(BOX)


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

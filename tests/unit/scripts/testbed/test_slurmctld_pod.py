"""slurmctld is killed without a restart by kubelet, and without time to save its state."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from testbed import slurmctld_pod
from testbed.errors import SandboxError

SLEEP = "import time; time.sleep(60)"


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", SLEEP]) as child:
        yield child
        child.kill()


def state(child: subprocess.Popen[bytes]) -> str:
    """R, S, T (stopped), Z (ended) …"""
    return Path(f"/proc/{child.pid}/stat").read_text().rpartition(") ")[2][0]


def settled(child: subprocess.Popen[bytes], wanted: str) -> bool:
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    return state(child) == wanted


class Kubectl:
    """A cluster whose pod is being deleted after some questions. Notes the process's state at each call."""

    def __init__(self, child: subprocess.Popen[bytes], answers: list[str]) -> None:
        self.child, self.answers = child, answers
        self.calls: list[tuple[str, ...]] = []
        self.stopped: list[bool] = []

    def __call__(self, *args: str, stdin: str | None = None) -> str:
        self.calls.append(args)
        self.stopped.append(settled(self.child, "T"))
        if args[0] == "scale":
            return ""
        answer = self.answers.pop(0)
        if answer == "down":
            raise SandboxError("connection refused")
        return answer


def test_it_stands_still_until_its_pod_is_being_deleted(process: subprocess.Popen[bytes]) -> None:
    kubectl = Kubectl(process, ["controller-0 ", "controller-0 2026-01-01T00:00:00Z"])
    slurmctld_pod.stop(kubectl, process.pid)
    assert [call[0] for call in kubectl.calls] == ["scale", "get", "get"]
    assert "--replicas=0" in kubectl.calls[0]
    assert kubectl.stopped == [True, True, True]
    assert process.wait(10) == -signal.SIGKILL


def test_it_goes_on_if_the_api_server_does_not_answer(process: subprocess.Popen[bytes]) -> None:
    with pytest.raises(SandboxError, match="connection refused"):
        slurmctld_pod.stop(Kubectl(process, ["down"]), process.pid)
    os.waitid(os.P_PID, process.pid, os.WCONTINUED)
    assert process.poll() is None


def test_a_start_waits_for_the_process() -> None:
    calls, running = [], iter([False, False, True])

    def kubectl(*args: str, stdin: str | None = None) -> str:
        calls.append(args)
        return ""

    slurmctld_pod.start(kubectl, lambda: next(running))
    assert ["--replicas=1" in call for call in calls] == [True]
    assert list(running) == []


def test_slurmctld_is_told_from_its_child(monkeypatch: pytest.MonkeyPatch) -> None:
    argv = {
        10: ["slurmctld", "-D", "-i"],
        11: ["/usr/sbin/slurmctld", "-D", "-i"],
        12: ["slurmd", "-D"],
    }
    monkeypatch.setattr("testbed.namespaces.enter.argv_of", argv.__getitem__)
    monkeypatch.setattr(slurmctld_pod, "parent_of", {10: 1, 11: 10, 12: 1}.get)
    assert slurmctld_pod.find([12, 11, 10]) == 10
    assert slurmctld_pod.find([12]) is None

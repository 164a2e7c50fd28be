"""When job reports require a pass, and what they record in the history."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from slurm_hooks.agent.job_report.monitor import JobMonitor
from slurm_hooks.node import machine
from slurm_hooks.settings import settings
from tests.unit.slurm_hooks.agent.job_runs.builders import facts, xid


class Node:
    """A job monitor with a recorder of events, without Slurm."""

    def __init__(self, folder: Path) -> None:
        self.run = folder / "run"
        for path in (self.run, folder / "state"):
            path.mkdir()
        config = folder / "holdfast.yaml"
        config.write_text(
            f"paths: {{run: {self.run}, state: {folder}/state}}\nslurm: {{bin: {folder}}}\n"
            "node: {expected_gpus: 2, leftover_grace_s: 0.1}\n"
        )
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.health = JobMonitor(
            "worker-1",
            machine.boot_id(),
            settings.load(config),
            lambda event, **said: self.events.append((event, said)),
        )

    def note(self, kind: str, job: int = 7) -> None:
        line = f"holdfast-job/1 {kind} {job} 0 {machine.uptime_s()} {machine.boot_id()} 2001 0 - - end\n"
        (self.run / f"notes/{job}.0.{kind}").write_text(line)
        self.health.turn(time.monotonic())

    def look(self) -> None:
        self.health.add_pass(facts(), machine.uptime_s() + 0.01)

    def until_reported(self, job: int = 7) -> None:
        end = time.monotonic() + 20
        while '"final": true' not in self._report(job):
            assert time.monotonic() < end
            self.health.turn(time.monotonic())
            time.sleep(0.01)

    def _report(self, job: int) -> str:
        path = self.run / f"reports/{job}.json"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def node(tmp_path: Path) -> Any:
    made = Node(tmp_path)
    yield made
    made.health.close()


def test_a_job_that_starts_with_a_recent_pass_requires_no_new_one(node: Node) -> None:
    node.look()
    time.sleep(0.05)
    node.note("start")
    assert not node.health.wants_pass(time.monotonic())


def test_the_end_of_a_job_requires_a_pass_at_most_once_a_second(node: Node) -> None:
    node.look()
    time.sleep(0.05)
    node.note("start")
    node.note("end")
    now = time.monotonic()
    assert [node.health.wants_pass(now + later) for later in (0, 0.5, 1.1)] == [True, False, True]


def test_a_job_right_after_anothers_end_waits_for_a_pass_of_its_own(node: Node) -> None:
    node.look()
    time.sleep(0.05)
    node.note("start")
    node.note("end")
    node.note("start", job=8)
    assert node.health.wants_pass(time.monotonic())
    time.sleep(0.02)
    node.look()
    assert not node.health.wants_pass(time.monotonic() + 5)


def test_a_job_affected_by_a_fault_of_the_node_is_recorded_in_the_history(node: Node) -> None:
    node.look()
    node.note("start")
    node.health.add_xids(
        [xid(13, seq=1, at_s=machine.uptime_s()), xid(79, seq=2, at_s=machine.uptime_s())]
    )
    node.note("end")
    time.sleep(0.02)
    node.look()
    node.until_reported()
    ((event, said),) = node.events
    assert event == "job_affected"
    assert (said["code"], said["gpu"], said["gpu_uuid"], said["job"]) == ("XID79", 0, "GPU-0", 7)


def test_an_application_error_is_not_recorded(node: Node) -> None:
    node.look()
    node.note("start")
    node.health.add_xids([xid(13, at_s=machine.uptime_s())])
    node.note("end")
    time.sleep(0.02)
    node.look()
    node.until_reported()
    assert node.events == []

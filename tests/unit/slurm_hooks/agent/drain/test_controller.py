"""The controller's requests to its worker."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.schema import ClusterConfig, PathsConfig
from holdfast.findings import Finding, Verdict
from holdfast.history.event import DRAINED
from holdfast.policy.budget import Count
from holdfast.policy.node_inputs import DrainInputs
from holdfast.policy.ownership import DrainRecord
from holdfast.vocabulary import Action, Mode, Severity, SlurmName
from slurm_hooks.agent.drain.controller import DrainController
from slurm_hooks.agent.drain.messages import AuditEntry, SlurmStatus, StepResult
from slurm_hooks.agent.drain.pace import Pace
from slurm_hooks.agent.drain.record import Drained, Records
from slurm_hooks.settings.sections import AgentConfig, NodeConfig
from slurm_hooks.settings.settings import Settings
from slurm_hooks.worker.worker import Answer, Worker


class Requests:
    """In place of the worker's process: keeps the requests, and gives the answers of the test."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.answer: Answer | None = None

    def ask(self, _worker: Worker, request: Any, **_: float) -> None:
        self.sent.append(request)

    def take(self, _worker: Worker) -> Answer | None:
        answer, self.answer = self.answer, None
        return answer


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    made = Requests()
    monkeypatch.setattr(Worker, "ask", lambda *words, **more: made.ask(*words, **more))
    monkeypatch.setattr(Worker, "take", lambda worker: made.take(worker))
    return made


@pytest.fixture
def controller(tmp_path: Path, requests: Requests) -> DrainController:
    config = Settings(
        path=tmp_path / "none.yaml",
        cluster=ClusterConfig(paths=PathsConfig(run=tmp_path / "run", state=tmp_path / "state")),
        node=NodeConfig(),
        agent=AgentConfig(act_retry_s=1.0),
    )
    return DrainController(SlurmName("worker-0"), "boot", config)


def test_records_are_read_by_every_second_step_while_steps_fail(
    controller: DrainController, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the step's process. The agent itself must not wait for a disk that does not answer (rule 12)."""
    monkeypatch.setattr(Records, "load", lambda _: pytest.fail("the agent read the disk"))
    monkeypatch.setattr(Records, "load_return", lambda _: pytest.fail("the agent read the disk"))
    controller.consider(DrainInputs(), 0.0)
    for now in (2.0, 202.0, 402.0):
        requests.answer = Answer(error="no answer in 60 s", hung=True)
        controller.turn(now)
        controller.turn(now + 100)
    assert [reload for *_, reload in requests.sent] == [False, True, False, True]
    requests.answer = Answer(items=(StepResult(slurm_status=SlurmStatus()),))
    controller.turn(600.0)
    controller._looked = False
    controller.consider(DrainInputs(), 610.0)
    assert requests.sent[-1][-1] is False


def test_after_a_switch_no_step_starts_before_the_next_pass_either(
    controller: DrainController, requests: Requests, tmp_path: Path
) -> None:
    """A step that failed, or that was answered late, is not followed by another one."""
    switch = tmp_path / "off/all"
    switch.parent.mkdir()
    controller.consider(FAULT, 0.0)
    requests.answer = Answer(error="no answer in 60 s", hung=True)
    switch.touch()
    controller.turn(2.0)
    controller.turn(102.0)
    assert len(requests.sent) == 1
    assert controller.next_at > 1e9, "the agent does not wake for it"
    switch.unlink()
    controller.consider(FAULT, 110.0)
    assert len(requests.sent) == 2


FAULT = DrainInputs(
    verdict=Verdict(
        findings=(
            Finding(
                check="xid",
                code="XID79",
                severity=Severity.FATAL,
                subject="gpu 3",
                detail="fell off",
                action=Action.REBOOT,
            ),
        )
    ),
    modes={"xid": Mode.DRAIN},
)


def asked(
    controller: DrainController, requests: Requests, status: SlurmStatus, passes: int
) -> list[int]:
    """The passes (one each 10 s) after which Slurm was asked; each answer is ``status``."""
    at = []
    for number in range(1, passes + 1):
        before = len(requests.sent)
        controller.consider(replace(FAULT, passes=number), number * 10.0)
        if len(requests.sent) > before:
            at.append(number)
            requests.answer = Answer(items=(StepResult(slurm_status=status),))
            controller.turn(number * 10.0 + 1)
    return at


def test_while_a_fault_stays_open_slurm_is_asked_less_and_less(
    controller: DrainController, requests: Requests
) -> None:
    """A node whose fault stayed open asked for the whole node table at each pass."""
    at = asked(controller, requests, SlurmStatus(action="drain", drained=True), 200)
    assert at[0] == 1
    pauses = [later - first for first, later in pairwise(at)]
    assert 3 <= pauses[0] <= 4
    assert len(at) < 25
    assert all(9 <= pause <= 16 for pause in pauses[3:])


def test_a_job_that_starts_on_a_drained_node_is_a_reason_to_ask(
    controller: DrainController, requests: Requests
) -> None:
    """A test of the node undrains it for seconds, in which the agent has to see that."""
    record = DrainRecord(
        reason="r",
        actor="root",
        at=datetime.now(timezone.utc),
        written_at=datetime.now(timezone.utc),
        code="XID79",
        action=Action.REBOOT,
        boot_id="b",
    )
    controller.consider(FAULT, 0.0)
    status = SlurmStatus(action="drain", drained=True)
    drained = Drained(record=record, subject="gpu 3")
    requests.answer = Answer(items=(StepResult(slurm_status=status, drained=drained),))
    controller.turn(1.0)
    controller.consider(FAULT, 2.0)
    assert len(requests.sent) == 1
    controller.consider(replace(FAULT, job_start_s=500.0), 3.0)
    assert len(requests.sent) == 2


def test_a_node_over_the_budget_asks_less_and_less(
    controller: DrainController, requests: Requests
) -> None:
    at = asked(controller, requests, SlurmStatus(action="over-budget"), 300)
    pauses = [later - first for first, later in pairwise(at)]
    assert len(at) <= 11
    assert pauses[0] <= 8
    assert 45 <= pauses[-1] <= 76


def test_failed_steps_are_repeated_later_and_later_and_not_all_at_once(tmp_path: Path) -> None:
    waits = []
    for _ in range(50):
        pace = Pace(AgentConfig(act_retry_s=2.0))
        waits.append([pace.failed(0.0) for _ in range(8)])
    assert all(1 <= wait[0] <= 3 and 30 <= wait[-1] <= 90 for wait in waits)
    assert len({wait[0] for wait in waits}) > 40


def test_a_new_fault_is_tried_again_soon_however_long_slurmctld_has_been_silent(
    controller: DrainController, requests: Requests
) -> None:
    silent = Answer(error="no answer in 5 s")
    now = 0.0
    controller.consider(DrainInputs(), now)
    for _ in range(8):
        requests.answer = silent
        controller.turn(now)
        before, now = now, max(now + 0.01, controller.next_at)
        controller.turn(now)
    assert now - before >= 30
    controller.consider(FAULT, now)
    requests.answer = silent
    controller.turn(now)
    assert 0.5 <= controller.next_at - now <= 1.5
    sent = len(requests.sent)
    controller.turn(now + 1.5)
    assert (len(requests.sent), requests.sent[-1][0].verdict) == (sent + 1, FAULT.verdict)


def test_after_a_drain_the_budget_is_counted_once_more(
    controller: DrainController, requests: Requests
) -> None:
    """Agents that drain in one second are ordered by name: the first to count may be the surplus."""
    controller.consider(FAULT, 0.0)
    drained = SlurmStatus(action="drain", drained=True)
    entry = AuditEntry(text="drained", event=DRAINED)
    requests.answer = Answer(items=(StepResult(slurm_status=drained, entries=(entry,)),))
    controller.turn(1.0)
    recounts = []
    for number in range(1, 4):
        controller.consider(replace(FAULT, passes=number), number * 10.0)
        recounts = [inputs.recount for inputs, *_ in requests.sent]
        requests.answer = Answer(items=(StepResult(slurm_status=drained),))
        controller.turn(number * 10.0 + 1)
    assert recounts == [True, True]


def test_a_drain_with_plenty_of_room_is_counted_once_more_within_a_minute(
    controller: DrainController, requests: Requests
) -> None:
    """Of 1,000 agents that drained together, not all at the next pass."""
    controller.consider(FAULT, 0.0)
    drained = SlurmStatus(action="drain", drained=True)
    entry = AuditEntry(text="drained", event=DRAINED)
    count = Count(total=10_000, out=3, by_users=0, changes=9, since=1)
    result = StepResult(slurm_status=drained, entries=(entry,), has_room=True, count=count)
    requests.answer = Answer(items=(result,))
    controller.turn(1.0)
    recounts = []
    for number in range(1, 11):
        controller.consider(replace(FAULT, passes=number), number * 10.0)
        requests.answer = Answer(items=(StepResult(slurm_status=drained, count=count),))
        controller.turn(number * 10.0 + 1)
    recounts = [inputs.recount for inputs, *_ in requests.sent[1:]]
    assert recounts.count(True) == 1
    assert requests.sent[-1][0].count == count
    waits = []
    for _ in range(200):
        pace = Pace(AgentConfig())
        pace.drained(0.0, has_room=True)
        waits.append(pace.recount_at)
    assert min(waits) < 10
    assert 50 < max(waits) < 65

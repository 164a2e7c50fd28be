"""The controller's requests to its worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.config.schema import ClusterConfig, PathsConfig
from holdfast.policy.node_inputs import DrainInputs
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.drain.controller import DrainController
from slurm_hooks.agent.drain.messages import SlurmStatus, StepResult
from slurm_hooks.agent.drain.record import Records
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
    for now in (2.0, 4.0, 6.0):
        requests.answer = Answer(error="no answer in 60 s", hung=True)
        controller.turn(now)
        controller.turn(now + 1.5)
    assert [reload for *_, reload in requests.sent] == [False, True, False, True]
    requests.answer = Answer(items=(StepResult(slurm_status=SlurmStatus()),))
    controller.turn(8.0)
    controller._looked = False
    controller.consider(DrainInputs(), 10.0)
    assert requests.sent[-1][-1] is False

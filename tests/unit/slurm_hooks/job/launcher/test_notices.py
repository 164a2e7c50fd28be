"""What a launcher tells its node's agent: the real command, and the agent's real socket."""

from __future__ import annotations

import select
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slurm_hooks.job.launcher import command
from slurm_hooks.job.notice import Notice
from slurm_hooks.settings.notify import JobEvent
from tests.unit.slurm_hooks.fake_agent_socket import ME, listening

FAILS = "import sys; sys.exit(1)"


@contextmanager
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notify: str) -> Iterator[list[Notice]]:
    """The notices that reach the agent while a job of this process's user runs. Slurm does not answer."""
    notices: list[Notice] = []
    monkeypatch.setenv("SLURM_JOB_ID", "42")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "worker-0")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "1")
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "8")
    monkeypatch.delenv("SLURM_STEP_ID", raising=False)
    ended = threading.Event()

    def take(notice: Notice) -> str:
        notices.append(notice)
        return ""

    with listening(42, take) as agent:
        config = tmp_path / "holdfast.yaml"
        config.write_text(
            f"paths: {{run: {agent.run_dir}}}\nslurm: {{bin: {tmp_path}/none}}\n"
            "job: {slurm_patience_s: 0, evidence_wait_s: 0, max_same_failure: 2}\n" + notify
        )
        monkeypatch.setenv("HOLDFAST_CONFIG", str(config))

        def turn() -> None:
            while not ended.is_set():
                select.select([fd for fd, _ in agent.sockets.fds()], [], [], 0.01)
                agent.sockets.turn(0.0)

        thread = threading.Thread(target=turn)
        thread.start()
        try:
            yield notices
        finally:
            ended.set()
            thread.join()


def test_each_restart_and_the_end_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm does not accept the hold, so the job ends."""
    with told(tmp_path, monkeypatch, "notify: {mail: [/bin/false]}\n") as notices:
        argv = ["--checkpoints", str(tmp_path / "c"), "--", sys.executable, "-c", FAILS]
        assert command.main(argv) == 1
    restarted, failed = notices
    assert (restarted.event, restarted.attempt, restarted.owner) == (JobEvent.RESTARTED, 1, ME)
    assert (failed.event, failed.attempt) == (JobEvent.FAILED, 2)
    assert restarted.why
    assert failed.why == "Slurm did not accept the request"
    assert restarted.gpus == 8
    assert 0 < restarted.lost_s < 60


@pytest.mark.parametrize("notify", ["", "notify: {mail: [/bin/false], events: [held]}\n"])
def test_what_nobody_wants_to_know_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notify: str
) -> None:
    with told(tmp_path, monkeypatch, notify) as notices:
        argv = ["--checkpoints", str(tmp_path / "c"), "--", sys.executable, "-c", FAILS]
        assert command.main(argv) == 1
    assert notices == []


def test_a_success_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with told(tmp_path, monkeypatch, "notify: {mail: [/bin/false]}\n") as notices:
        assert command.main(["--checkpoints", str(tmp_path / "c"), "--", "true"]) == 0
    assert notices == []

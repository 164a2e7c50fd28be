"""The comment of a job names its journal, and nothing that others wrote there is lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_hooks.job import marker as markers
from tests.unit.slurm_hooks.agent.jobs.fake_job import JOB, FakeSlurm, Node

JOURNAL = "/mnt/my training/.holdfast/job-7.jsonl"
NAMED = "holdfast: journal=/mnt/my%20training/.holdfast/job-7.jsonl"


@pytest.fixture
def no_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CONFIG", str(tmp_path / "holdfast.yaml"))


def test_the_comment_of_a_running_job_names_its_journal_once(
    tmp_path: Path, no_switch: None
) -> None:
    slurm = FakeSlurm(JOB)
    node = Node(tmp_path, slurm)
    node.mark("running", journal=JOURNAL)
    node.run(seconds=40)
    assert slurm.job_now is not None
    assert slurm.job_now.admin_comment == NAMED
    assert slurm.asked.count("admin_comment") == 1


def test_a_journal_that_another_agents_write_removed_is_written_again(
    tmp_path: Path, no_switch: None
) -> None:
    slurm = FakeSlurm(JOB)
    node = Node(tmp_path, slurm)
    node.mark("running", journal=JOURNAL)
    node.run(seconds=5)
    other = "holdfast: XID13 node=n2 run=0 at=5"
    slurm.job_now = replace(JOB, admin_comment=other)
    node.run(seconds=20)
    assert slurm.job_now.admin_comment == f"{other}; {NAMED.removeprefix('holdfast: ')}"


def test_a_job_that_is_held_at_once_still_gets_its_journal(tmp_path: Path, no_switch: None) -> None:
    slurm = FakeSlurm(replace(JOB, state="PENDING", state_reason="JobHeldUser", restarts=1))
    node = Node(tmp_path, slurm)
    node.mark("finished", journal=JOURNAL)
    node.run(seconds=2)
    assert slurm.job_now is not None
    assert slurm.job_now.admin_comment == NAMED
    assert list(markers.folder(tmp_path).iterdir()) == []


@pytest.mark.parametrize("comment", ["ticket 1234", NAMED])
def test_a_persons_comment_and_one_that_names_the_journal_stay(
    tmp_path: Path, no_switch: None, comment: str
) -> None:
    slurm = FakeSlurm(replace(JOB, admin_comment=comment))
    node = Node(tmp_path, slurm)
    node.mark("running", journal=JOURNAL)
    node.run(seconds=20)
    assert "admin_comment" not in slurm.asked


def test_a_comment_that_slurm_refuses_delays_no_requeue(tmp_path: Path, no_switch: None) -> None:
    slurm = FakeSlurm(replace(JOB, state="FAILED"))
    node = Node(tmp_path, slurm)
    node.mark("running", journal=JOURNAL)
    node.run(seconds=20)
    assert slurm.asked.count("admin_comment") == 1
    assert "requeue" in slurm.asked


def test_a_path_that_is_too_long_is_not_written(tmp_path: Path, no_switch: None) -> None:
    slurm = FakeSlurm(JOB)
    node = Node(tmp_path, slurm)
    node.mark("running", journal="/" + "x" * 500)
    node.run(seconds=20)
    assert "admin_comment" not in slurm.asked

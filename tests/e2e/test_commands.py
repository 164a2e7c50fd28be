"""The commands that people type, on a real cluster: explain, status, nodes, history, support-bundle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from testbed.box import Box

from tests.e2e import cluster

pytestmark = pytest.mark.e2e

FOLDER = "/mnt/training/commands/my checkpoints; 7"


def submitted(box: Box, *options: str) -> int:
    """A job of alice whose command fails after 6 s. Its checkpoints are far from its working folder."""
    box.run(["mkdir", "-p", FOLDER], user="alice")
    script = (
        f'#!/bin/sh\ncd /tmp\nholdfast run --checkpoints "{FOLDER}" -- sh -c "sleep 6; exit 3"\n'
    )
    words = ["sbatch", "--parsable", "--requeue", "--output=/dev/null", "--chdir=/tmp", *options]
    return int(box.run(words, user="alice", stdin=script).stdout)


def explained(box: Box, job: int, **where: Any) -> dict[str, Any]:
    done = box.run(["holdfast", "explain", str(job), "--json"], check=False, **where)
    report: dict[str, Any] = json.loads(done.stdout or "{}")
    return report


@contextmanager
def silent_slurmctld(box: Box) -> Iterator[None]:
    box.run(["pkill", "-STOP", "slurmctld"])
    try:
        yield
    finally:
        box.run(["pkill", "-CONT", "slurmctld"])


@pytest.mark.one_release
def test_a_job_is_explained_wherever_its_journal_is(clean_box: Box) -> None:
    job = submitted(clean_box)
    path = f"{FOLDER}/.holdfast/job-{job}.jsonl"
    cluster.wait_for(
        lambda: explained(clean_box, job, user="alice").get("journal") == path,
        "the AdminComment leads the job's user to the journal",
        30,
    )
    with silent_slurmctld(clean_box):
        report = explained(clean_box, job)
        assert report["slurm_problem"]
        assert report["accounting"]["user"] == "alice"
    cluster.wait_for(
        lambda: len(explained(clean_box, job)["attempts"]) == 2, "two attempts are two", 60
    )
    cluster.wait_for(
        lambda: explained(clean_box, job)["job"]["state_reason"].lower().startswith("jobheld"),
        "the job is held",
        60,
    )
    clean_box.run(["scancel", str(job)])
    assert explained(clean_box, job)["journal"] == path


def test_status_shows_nodes_jobs_budget_and_kill_switches(clean_box: Box) -> None:
    node = clean_box.nodes[1].name
    clean_box.run(["sbatch", "--hold", "--output=/dev/null", "--wrap=true"], user="alice")
    clean_box.fault(node, "xid", "79")
    cluster.wait_for(lambda: cluster.drained(clean_box, node), "drained", 30)
    status = json.loads(clean_box.run(["holdfast", "status", "--json"]).stdout)
    assert [row["name"] for row in status["out_of_service"]] == [node]
    assert status["budget"]["used"] == 1
    assert status["jobs"]["held"] == 1
    assert status["bridge"]["problem"] == ""
    page = clean_box.run(["env", "COLUMNS=80", "holdfast", "status"]).stdout
    assert f"{len(clean_box.nodes) - 1} in service" in page
    assert "1 out of service (1 by\n" in page or "1 by holdfast-agent" in page
    assert max(map(len, page.splitlines())) <= 80


@pytest.mark.one_release
def test_kill_switches_are_shown_and_recorded(clean_box: Box) -> None:
    node = clean_box.nodes[0]
    off = "/etc/holdfast/off"
    box = clean_box.node(node.name)
    box.run(["mkdir", "-p", off])
    box.run(["touch", f"{off}/gpu_xyd"])
    try:
        for command in (["explain", node.name], ["nodes"], ["status"]):
            page = box.run(["holdfast", *command], check=False).stdout
            assert f"{off}/gpu_xyd has no effect" in page, command

        def on() -> bool:
            rows = json.loads(box.run(["holdfast", "history", "--json"], check=False).stdout)
            return any(
                row["name"] == node.name and row["kill_switches"] == ["gpu_xyd"] for row in rows
            )

        cluster.wait_for(on, "the agent recorded the kill switch", 20)
    finally:
        box.run(["rm", "-r", off])


@pytest.mark.one_release
def test_a_support_bundle_has_what_slurm_and_the_agent_know(clean_box: Box) -> None:
    node = clean_box.nodes[0].name
    box = clean_box.node(node)
    done = box.run(["holdfast", "support-bundle", node, "--output", "/tmp/b.tar.gz"])
    assert "files" in done.stdout
    names = box.run(["tar", "-tzf", "/tmp/b.tar.gz"]).stdout
    box.run(["rm", "/tmp/b.tar.gz"])
    for part in (
        "explain.json",
        "history.json",
        "slurm/node.txt",
        "agent/verdict",
        "manifest.json",
    ):
        assert part in names

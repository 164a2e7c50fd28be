"""Node health in job reports, with real slurmctld and slurmd: attribution of faults, leftovers."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from testbed.box import Box

from tests.e2e import cluster
from tests.e2e.job import training

pytestmark = pytest.mark.e2e

CONFIG = "/etc/holdfast/holdfast.yaml"
RUN = "/run/holdfast"


@contextmanager
def configured(box: Box, *lines: str) -> Iterator[None]:
    """Add lines to the section ``node``, loaded by every agent; restores the old ones afterwards."""
    before = box.run(["cat", CONFIG]).stdout
    more = "".join(f"  {line}\n" for line in (*lines, "allow_skip: true"))
    _configure(box, before.replace("\nnode:\n", f"\nnode:\n{more}", 1), allowed=True)
    try:
        yield
    finally:
        _configure(box, before, allowed=False)


def _configure(box: Box, text: str, *, allowed: bool) -> None:
    box.run(["tee", CONFIG], stdin=text)
    for node in box.nodes:
        cluster.wait_for(
            lambda name=node.name: _exists(box, name, f"{RUN}/allow_skip") is allowed,  # type: ignore[misc]
            f"{node.name}'s agent loaded the configuration",
            15,
        )


def _exists(box: Box, node: str, path: str) -> bool:
    return box.node(node).run(["test", "-e", path], check=False).returncode == 0


def report(box: Box, node: str, job_id: int) -> dict[str, Any]:
    """The node's report of an ended job, once it exists."""

    def ready() -> bool:
        return bool(_report(box, node, job_id).get("final"))

    cluster.wait_for(ready, f"{node}'s report of job {job_id}", 15)
    return _report(box, node, job_id)


def _report(box: Box, node: str, job_id: int) -> dict[str, Any]:
    done = box.node(node).run(["cat", f"{RUN}/reports/{job_id}.json"], check=False)
    found: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
    return found


def evidence(job: training.Training) -> list[dict[str, Any]]:
    """The launcher's `evidence` events, one for each ended attempt."""
    path = job.box.path(f"{job.folder}/.holdfast/job-{job.job_id}.jsonl")
    try:
        events = [json.loads(line) for line in path.read_text().splitlines()]
    except FileNotFoundError:
        return []
    return [event for event in events if event["event"] == "evidence"]


def submit(box: Box, script: str, *options: str) -> int:
    done = box.run(
        ["sbatch", "--parsable", "-o", "/dev/null", *options], user="alice", stdin=script
    )
    return int(done.stdout.split(";")[0])


def state(box: Box, job_id: int) -> str:
    text = box.run(["scontrol", "show", "job", str(job_id), "--json"]).stdout
    return "+".join(json.loads(text)["jobs"][0]["job_state"])


@pytest.mark.one_release
def test_an_application_xid_is_attributed_to_the_job(clean_box: Box) -> None:
    box = clean_box
    job = training.submit(box, steps=30, code=1)
    job.wait_step(2)
    node = job.nodes()[1]
    job.wait(lambda: _has_tasks(box, node), f"tasks on {node}", 15)
    box.fault(node, "xid", "13", "--gpu", "2")
    job.wait(lambda: "XID13" in job.job()["admin_comment"], "an entry in the AdminComment", 10)
    assert job.job()["admin_comment"].startswith(f"holdfast: XID13 node={node} gpu=2 ")
    job.wait(lambda: bool(evidence(job)), "the launcher's evidence", 30)
    box.run(["scancel", str(job.job_id)])

    seen = evidence(job)[0]
    assert (seen["attribution"], seen["faults"]) == ("job", [])
    (incident,) = seen["incidents"]
    assert (incident["code"], incident["node"], incident["gpu"], incident["step"]) == (
        "XID13",
        node,
        2,
        "0",
    )
    assert "XID13" in job.log()
    assert cluster.in_service(box, node)
    page = box.run(["holdfast", "explain", str(job.job_id)]).stdout
    assert f"XID13 (graphics engine exception (GR_EXCEPTION)) on {node} GPU 2" in page


def test_a_hardware_xid_is_reported_with_node_and_gpu(clean_box: Box) -> None:
    box = clean_box
    job = training.submit(box, steps=40)
    job.wait_step(7)
    node = job.nodes()[1]
    box.fault(node, "xid", "79", "--gpu", "5")
    job.wait(lambda: bool(evidence(job)), "the launcher's evidence", 20)

    seen = evidence(job)[0]
    assert seen["attribution"] == "node"
    assert [(f["node"], f["gpu"], f["fatal"]) for f in seen["faults"]] == [(node, 5, True)]
    job.wait(
        lambda: f"XID79 node={node} gpu=5" in job.job()["admin_comment"],
        "an entry in the AdminComment",
    )
    first = report(box, node, job.job_id)
    assert (first["run"], first["attribution"]) == (0, "node")
    box.run(["scancel", str(job.job_id)])


def _has_tasks(box: Box, node: str) -> bool:
    return any("e2e_small.py" in " ".join(argv) for _, argv in box.pids(node))


_LEAVES_ONE_BEHIND = """#!/bin/sh
srun sh -c '(setsid sh -c "trap : TERM; while :; do sleep 1; done" >/dev/null 2>&1 </dev/null &); sleep 0.2'
(setsid sleep 300 >/dev/null 2>&1 </dev/null &)
exit 0
"""


def test_only_processes_that_a_job_left_behind_are_ended(clean_box: Box) -> None:
    """A child that left its session survives the job with proctrack/linuxproc, but not with cgroups."""
    box, node = clean_box, "worker-1"
    with configured(box, "leftovers: kill", "leftover_grace_s: 0.5"):
        box.node(node).run(
            ["sh", "-c", "setsid sleep 301 >/dev/null 2>&1 </dev/null &"], user="alice"
        )
        job_id = submit(box, _LEAVES_ONE_BEHIND, "-w", node, "-N1", "--gres=gpu:2")
        cluster.wait_for(lambda: state(box, job_id) == "COMPLETED", "the job has ended", 20)
        found = report(box, node, job_id)

        assert found["evaluated"] is True
        left = found["leftovers"]
        assert {process["fate"] for process in left} <= {"ended", "gone"}
        assert any(process["command"].startswith("sleep 300") for process in left)
        assert any(
            "trap : TERM" in process["command"] and process["fate"] == "ended" for process in left
        )
        alive = [argv for _, argv in box.pids(node)]
        assert ["sleep", "300"] not in alive
        assert ["sleep", "301"] in alive, "a process of the user outside any job"
        assert cluster.in_service(box, node)
    for pid, argv in box.pids(node):
        if argv == ["sleep", "301"]:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.one_release
def test_a_user_can_skip_the_checks_where_the_site_allows_it(clean_box: Box) -> None:
    box, node = clean_box, "worker-0"
    with configured(box):
        (agent,) = _agents(box, node)
        os.kill(agent, signal.SIGSTOP)  # so that the bad verdict does not drain the node
        try:
            _set_bad_verdict(box, node)
            job_id = submit(
                box, "#!/bin/sh\nsrun true\n", "-w", node, "-N1", "--comment=skip_checks"
            )
            cluster.wait_for(lambda: state(box, job_id) == "COMPLETED", "the job has run", 15)
            assert cluster.in_service(box, node)
        finally:
            os.kill(agent, signal.SIGCONT)
        found = report(box, node, job_id)
        assert (found["evaluated"], found["not_evaluated_reason"]) == (
            False,
            "the user skipped the checks (skip_checks)",
        )


def _agents(box: Box, node: str) -> list[int]:
    """The agent's host pid; its workers are its children."""
    found = {pid for pid, argv in box.pids(node) if "slurm_hooks.agent" in argv}
    lock = box.node(node).run(["cat", f"{RUN}/agent.lock"]).stdout.split()[0]
    return [pid for pid in found if _inner_pid(pid) == lock]


def _inner_pid(pid: int) -> str:
    """Empty for a worker that has ended meanwhile."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return ""
    return next((line.split()[-1] for line in status.splitlines() if line.startswith("NSpid:")), "")


def _set_bad_verdict(box: Box, node: str) -> None:
    """Write a bad verdict that is valid for a minute."""
    text = box.node(node).run(["cat", f"{RUN}/verdict"]).stdout
    first, second = text.split("\n")[:2]
    _, expires, boot_id, wire = first.split()
    verdict = {**json.loads(second), "status": "bad", "drained": False, "at": time.time()}
    bad = f"bad {int(expires) + 60} {boot_id} {wire}\n{json.dumps(verdict)}\n"
    box.node(node).run(["sh", "-c", f'printf %s "$1" >{RUN}/verdict', "sh", bad])

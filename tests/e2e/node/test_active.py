"""Active checks as real Slurm jobs: an inspection, the test before a node's return, and a crash during it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from testbed.box import Box

from tests.e2e import cluster

pytestmark = pytest.mark.e2e
CONFIG = "/etc/holdfast/holdfast.yaml"
NODE = "worker-1"


def reservations(box: Box) -> list[str]:
    output = box.run(["scontrol", "show", "reservation", "-o"]).stdout
    return [line.split()[0] for line in output.splitlines() if "holdfast_" in line]


def jobs(box: Box) -> dict[str, list[dict[str, Any]]]:
    """Every job that slurmctld still lists, by name, oldest first."""
    records = json.loads(box.run(["squeue", "--states=all", "--json"]).stdout)["jobs"]
    found: dict[str, list[dict[str, Any]]] = {}
    for job in sorted(records, key=lambda job: job["job_id"]):
        found.setdefault(job["name"], []).append(job)
    return found


def running(box: Box, name: str) -> bool:
    return any("RUNNING" in job["job_state"] for job in jobs(box).get(name, []))


def agent_log(box: Box, node: str) -> str:
    return box.node(node).run(["cat", f"/var/log/holdfast/agent.{node}.log"]).stdout


def past(box: Box) -> str:
    """The node's history, which is written a moment later."""
    return box.node(NODE).run(["holdfast", "history", NODE], check=False).stdout


def no_drain(box: Box, node: str) -> bool:
    """In service and not reserved for a test."""
    return cluster.in_service(box, node) and not reservations(box)


@pytest.fixture
def with_gate(clean_box: Box) -> Iterator[Box]:
    """The return test required, with a storage test that takes seconds."""
    before = clean_box.run(["cat", CONFIG]).stdout
    after = before.replace("agent: {", "agent: {return_test: require, return_test_retry_s: 300, ")
    assert after != before
    write(clean_box, after.replace("size_mib: 16", "size_mib: 300"))
    yield clean_box
    write(clean_box, before)


def write(box: Box, text: str) -> None:
    """Replace the configuration, and wait until every agent has loaded it."""
    seen = {node.name: agent_log(box, node.name).count(" started ") for node in box.nodes}
    box.run(["sh", "-c", 'printf %s "$1" >"$0.new" && mv "$0.new" "$0"', CONFIG, text])
    cluster.wait_for(
        lambda: all(agent_log(box, name).count(" started ") > n for name, n in seen.items()),
        "every agent restarted",
        40,
    )


def inspect(box: Box, *nodes: str) -> dict[str, Any]:
    """The report's part on each node; at least one of them fails."""
    argv = ["holdfast", "inspect", *nodes, "--json"]
    for check in ("host", "storage", "dcgm_diag_r1", "nccl_pairwise"):
        argv += ["--check", check]
    done = box.run(argv, check=False, timeout_s=150)
    assert done.returncode == 1, done.stderr + done.stdout
    return {node["node"]: node for node in json.loads(done.stdout)["nodes"]}


def test_an_inspection_tests_idle_and_drained_nodes_and_changes_nothing(clean_box: Box) -> None:
    box = clean_box
    box.run(["scontrol", "update", "nodename=worker-2", "state=drain", "reason=swapping a DIMM"])
    box.fault(NODE, "mount-read-only", "/mnt/training")
    cluster.wait_for(lambda: cluster.drained(box, NODE), "drained", 15)
    reason = cluster.reason(box, NODE)

    report = inspect(box, "worker-0", NODE, "worker-2")
    results = {
        node: {check["check"]: (check["verdict"], check["detail"]) for check in part["checks"]}
        for node, part in report.items()
    }
    assert results["worker-0"]["host"][0] == "passed", results["worker-0"]["host"]
    assert results["worker-0"]["storage"][0] == "passed", results["worker-0"]["storage"]
    assert results["worker-0"]["dcgm_diag_r1"][0] == "error"
    assert results["worker-0"]["nccl_pairwise"][0] == "error"
    assert results[NODE]["host"][0] == "failed"
    assert results[NODE]["storage"][0] == "failed"
    assert "/mnt/training Read-only file system" in results[NODE]["storage"][1]
    assert "swapping a DIMM" in report["worker-2"]["skipped"]

    ran = jobs(box)["holdfast-storage"]
    assert {(job["user_name"], *job["job_state"]) for job in ran} == {("root", "COMPLETED")}
    assert reservations(box) == []
    assert cluster.reason(box, NODE) == reason
    assert cluster.reason(box, "worker-2") == "swapping a DIMM"
    assert cluster.in_service(box, "worker-0")
    pages = box.run(["sh", "-c", "cat /var/lib/holdfast/inspections/*.txt"]).stdout
    assert "I/O throughput" in pages
    cluster.wait_for(lambda: "storage failed" in past(box), "an entry in the history", 20)

    _suspects_are_tested_once(box)
    box.heal(NODE)
    cluster.wait_for(
        lambda: no_drain(box, NODE),
        "returned to service by the agent that had drained it",
        scene=lambda: f"{reservations(box)}\n{agent_log(box, NODE)[-3000:]}",
    )


def _suspects_are_tested_once(box: Box) -> None:
    """Of a job that excludes an idle node and one that a person has drained."""
    wanted = ["sbatch", "--parsable", "--hold", "--exclude=worker-[2-3]", "--wrap=true"]
    job = int(box.run(wanted, user="alice").stdout)
    argv = ["holdfast", "inspect", "--suspects", "--check", "host", "--json"]
    (part,) = json.loads(box.run(argv).stdout)["nodes"]
    assert (part["node"], part["verdict"], part["excluded_by"]) == ("worker-3", "passed", [job])
    assert "no job excludes a node that can be tested now" in box.run(argv).stderr
    box.run(["scancel", str(job)])


def test_the_node_is_tested_before_its_return_and_no_job_runs_between(with_gate: Box) -> None:
    box = with_gate
    box.fault(NODE, "xid", "79", "--gpu", "3")
    cluster.wait_for(lambda: cluster.drained(box, NODE), "drained", 10)
    wanted = ["sbatch", "--job-name=users", "-w", NODE, "--output=/dev/null", "--wrap=true"]
    box.run(wanted, user="alice")
    box.heal(NODE)
    cluster.wait_for(lambda: no_drain(box, NODE), "tested and returned to service")
    cluster.wait_for(
        lambda: "COMPLETED" in jobs(box)["users"][-1]["job_state"], "the user's job runs", 30
    )
    known = jobs(box)
    test = known["holdfast-host"][-1]
    assert test["user_name"] == "root"
    assert known["users"][-1]["start_time"]["number"] >= test["end_time"]["number"]
    cluster.wait_for(lambda: "host passed" in past(box), "an entry in the history", 20)

    # Memory faults need a load test, which is not available here, but the test is required.
    box.fault(NODE, "xid", "95", "--gpu", "3")
    cluster.wait_for(lambda: cluster.drained(box, NODE), "drained", 10)
    box.heal(NODE)

    def reported() -> bool:
        return "dcgmi not found in PATH" in str(cluster.slurm_node(box, NODE)["comment"])

    cluster.wait_for(reported, "the comment gives the reason", 40)
    reason = cluster.reason(box, NODE)
    assert reason.startswith("holdfast:"), reason
    cluster.stays(
        lambda: cluster.drained(box, NODE) and cluster.reason(box, NODE) == reason,
        "an untested node does not return",
        4,
    )
    assert reservations(box) == []


@pytest.mark.one_release
def test_after_a_crash_during_a_test_the_node_is_drained_again(with_gate: Box) -> None:
    box = with_gate
    box.fault(NODE, "mount-read-only", "/mnt/training")
    cluster.wait_for(lambda: cluster.drained(box, NODE), "drained", 15)
    reason = cluster.reason(box, NODE)
    box.heal(NODE)
    cluster.wait_for(lambda: running(box, "holdfast-storage"), "the test runs", 40)
    assert not cluster.drained(box, NODE), "no job runs on a drained node"
    assert reservations(box), "so it is reserved"
    assert cluster.cordoned(box, NODE), "and the Kubernetes Node stays cordoned"
    box.fault(NODE, "agent-killed")
    ended = "test ended, previous state restored: a test was left unfinished"
    cluster.wait_for(lambda: ended in agent_log(box, NODE), "the next agent puts it back", 40)
    drained = box.run(["sacctmgr", "-nP", "show", "event", f"nodes={NODE}", "format=reason"])
    assert reason in drained.stdout
    cluster.wait_for(lambda: no_drain(box, NODE), "tested again and returned to service", 90)
    cluster.wait_for(lambda: "storage passed" in agent_log(box, NODE), "an entry in its log", 10)

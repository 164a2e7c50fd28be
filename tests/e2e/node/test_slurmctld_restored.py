"""slurmctld restarts with older state that lacks the drain of a faulty node, or its return."""

from __future__ import annotations

import pytest
from testbed.box import Box

from tests.e2e import cluster

pytestmark = pytest.mark.e2e

NODE = "worker-1"
_NODE_STATE = "/var/lib/slurm/ctld/node_state"


def _drained_for_a_fault(box: Box) -> str:
    box.fault(NODE, "gpu-lost", "--gpu", "3")
    cluster.wait_for(lambda: cluster.drained(box, NODE), "drained", 20)
    return cluster.reason(box, NODE)


def test_a_drain_that_slurmctld_lost_is_set_again(clean_box: Box) -> None:
    box = clean_box
    reason = _drained_for_a_fault(box)
    box.fault("controller", "slurmctld-restored")
    # It waits for the node, and starts there as soon as slurmctld allows it.
    job = box.run(
        ["sbatch", "--parsable", f"--nodelist={NODE}", "--wrap", "sleep 60"], user="alice"
    ).stdout.strip()
    cluster.wait_for(
        lambda: cluster.drained(box, NODE), "drained again", 30, lambda: _log(box, job)
    )
    assert cluster.reason(box, NODE) == reason, _log(box, job)
    cluster.stays(lambda: cluster.drained(box, NODE), "it stays drained", 5)
    assert _runs(box, job) == "", _log(box, job)
    box.run(["scancel", job])


def test_a_manual_resume_is_kept(clean_box: Box) -> None:
    """Even after a restart of slurmctld without loss: the agent saw the drain in the new one."""
    box = clean_box
    _drained_for_a_fault(box)
    _saved_with_its_reason(box)  # killed earlier, slurmctld loses the drain
    box.stop_daemon("slurmctld")
    cluster.wait_for(lambda: "slurmctld" not in box.daemons(), "slurmctld gone", 10)
    box.start_daemon("slurmctld")
    cluster.wait_for(lambda: _is_up(box), "slurmctld", 20)
    assert cluster.drained(box, NODE), "slurmctld kept it"
    record = "/var/lib/holdfast/drain.json"
    started = box.run(
        ["sh", "-c", "SLURM_TIME_FORMAT=%s scontrol show config | sed -n 's/^BOOT_TIME *= //p'"]
    ).stdout.strip()
    cluster.wait_for(
        lambda: f'"slurmctld_at": {started}' in box.node(NODE).run(["cat", record]).stdout,
        "the agent saw its drain in the new slurmctld",
        20,
    )
    before = len(_agent_log(box))
    resume = ["scontrol", "update", f"nodename={NODE}", "state=resume"]
    # Refused until the node has registered again (24.11).
    cluster.wait_for(lambda: box.run(resume, check=False).returncode == 0, "resumed", 30)
    cluster.wait_for(
        lambda: "resumed by a person" in _agent_log(box)[before:],
        "acknowledged",
        20,
    )
    assert "slurmctld lost" not in _agent_log(box)[before:]


def test_a_return_that_slurmctld_lost_is_made_again(clean_box: Box) -> None:
    """slurmctld was killed before it saved the return: it starts with a drain that had ended."""
    box = clean_box
    box.fault(NODE, "xid", "48")
    cluster.wait_for(lambda: cluster.drained(box, NODE), "drained", 20)
    with_drain = _saved_with_its_reason(box)
    box.heal(NODE)
    cluster.wait_for(lambda: cluster.in_service(box, NODE), "returned to service", 40)
    box.stop_daemon("slurmctld")
    cluster.wait_for(lambda: "slurmctld" not in box.daemons(), "slurmctld gone", 10)
    box.path(_NODE_STATE).write_bytes(with_drain)
    box.start_daemon("slurmctld")
    cluster.wait_for(lambda: _is_up(box), "slurmctld", 20)
    assert cluster.drained(box, NODE), "slurmctld lost the return"
    cluster.wait_for(
        lambda: cluster.in_service(box, NODE), "returned again", 60, lambda: _log(box, "0")
    )


def _saved_with_its_reason(box: Box) -> bytes:
    """slurmctld's state file, once it has the node's reason; slurmctld saves it after some seconds."""
    read: list[bytes] = []

    def saved() -> bool:
        read[:] = [box.path(_NODE_STATE).read_bytes()]
        return cluster.reason(box, NODE).encode() in read[0]

    cluster.wait_for(saved, "slurmctld saved the drain", 60, lambda: f"{read}\n{_log(box, '0')}")
    return read[0]


def _is_up(box: Box) -> bool:
    return "is UP" in box.run(["scontrol", "ping"], check=False).stdout


def _runs(box: Box, job: str) -> str:
    """The node on which the job runs; empty for none."""
    return box.run(["squeue", "-h", "-j", job, "-t", "R", "-o", "%N"], check=False).stdout.strip()


def _agent_log(box: Box) -> str:
    return box.path(f"/var/log/holdfast/agent.{NODE}.log").read_text(errors="replace")


def _log(box: Box, job: str) -> str:
    record = box.run(["scontrol", "show", "job", job], check=False).stdout
    return record + cluster.scene(box) + _agent_log(box)[-4000:]

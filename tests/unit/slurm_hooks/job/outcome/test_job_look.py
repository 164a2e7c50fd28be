"""What the launcher keeps of its looks at the job: its name, its flags, and new incidents only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import cast

from holdfast.errors import Unavailable
from holdfast.records.incidents import NODE_TESTED, STEPD_KILLED, Incident, merge, render
from holdfast.slurm.client import SlurmClient, SlurmJob, SlurmNode
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.job.environment import JobContext
from slurm_hooks.job.outcome.job_look import JobLook
from slurm_hooks.job.outcome.node_faults import JobSnapshot

JOB = SlurmJob(
    job_id=7, name="t", user="alice", state="RUNNING", state_reason="", restarts=0, requeue=True
)
CONTEXT = JobContext(
    job_id=7, restarts=0, nodes="worker-[0-1]", node_count=2, host="worker-0", started_at=0.0
)


@dataclass
class FakeSlurm:
    """slurmctld with one job and its nodes."""

    row: SlurmJob = JOB
    states: frozenset[NodeState] = frozenset({NodeState.ALLOCATED})
    reason: str = ""
    silent: bool = False

    def job(self, job_id: int) -> SlurmJob | None:
        if self.silent:
            raise Unavailable(["scontrol"], "no answer in 10 s")
        return self.row if job_id == self.row.job_id else None

    def nodes(self, names: Sequence[SlurmName]) -> list[SlurmNode]:
        if self.silent:
            raise Unavailable(["scontrol"], "no answer in 10 s")
        return [SlurmNode(name=name, states=self.states, reason=self.reason) for name in names]


def look_at(slurm: FakeSlurm) -> JobLook:
    return JobLook(CONTEXT, cast("SlurmClient", slurm))


def test_a_task_of_an_array_has_squeues_name_from_the_first_look_on() -> None:
    slurm = FakeSlurm(replace(JOB, array_task="5_3", expedited=True))
    look = look_at(slurm)
    assert (look.name, look.expedited) == ("7", False)
    assert look.look().job == slurm.row
    assert (look.name, look.expedited) == ("5_3", True)
    slurm.silent = True
    assert look.look().job is None
    assert (look.name, look.expedited) == ("5_3", True)


def test_its_nodes_are_those_of_the_allocation() -> None:
    look = look_at(FakeSlurm())
    assert look.nodes == ("worker-0", "worker-1")
    assert [node.name for node in look.look().nodes] == ["worker-0", "worker-1"]


def test_nodes_are_healthy_only_where_slurm_answers_and_shows_no_fault() -> None:
    slurm = FakeSlurm()
    look = look_at(slurm)
    assert look.are_nodes_healthy(look.look())
    slurm.states = frozenset({NodeState.ALLOCATED, NodeState.DRAIN})
    slurm.reason = "holdfast:XID79: GPU 3 fell off"
    assert not look.are_nodes_healthy(look.look())
    slurm.silent = True
    assert not look.are_nodes_healthy(look.look())


def test_incidents_from_before_the_attempt_do_not_count() -> None:
    slurm = FakeSlurm(replace(JOB, admin_comment="holdfast: XID79 node=worker-1 run=0 at=5"))
    look = look_at(slurm)
    snapshot = look.look()
    assert [incident.code for incident in snapshot.incidents] == ["XID79"]
    assert look.reported(snapshot).fatal_nodes == {"worker-1"}
    look.earlier = snapshot.incidents
    assert not look.reported(look.look()).fatal_nodes


def test_a_node_whose_slurmstepd_was_killed_has_lost_the_processes_of_this_attempt() -> None:
    killed = Incident(code=STEPD_KILLED, node="worker-1", step="0", at=5)
    slurm = FakeSlurm(replace(JOB, admin_comment=render([killed])))
    look = look_at(slurm)
    (fault,) = look.look_with_incidents().faults or ()
    assert (fault.node, fault.code, fault.detail) == (
        "worker-1",
        "LOST",
        "the slurmstepd of step 0 was killed",
    )
    assert (fault.fatal, fault.usable_again, fault.out_of_service) == (True, True, False)
    assert look.reported(look.look()).fatal_nodes == frozenset()
    look.earlier = look.look().incidents
    assert look.look_with_incidents().faults == ()  # of an earlier attempt


def test_a_killed_slurmstepd_elsewhere_is_not_the_jobs() -> None:
    killed = Incident(code=STEPD_KILLED, node="worker-9", step="0", at=5)
    look = look_at(FakeSlurm(replace(JOB, admin_comment=render([killed]))))
    assert look.look_with_incidents().faults == ()


def test_an_inspection_that_a_node_has_passed_is_no_incident_of_the_attempt() -> None:
    entries = [Incident(code=NODE_TESTED, node="worker-9", at=at, run=0) for at in (9, 5)]
    job = replace(JOB, admin_comment=render(merge((), entries)))
    snapshot = JobSnapshot(job=job, faults=())
    assert snapshot.incidents == ()
    assert snapshot.tested == {SlurmName("worker-9"): datetime.fromtimestamp(9, timezone.utc)}
    assert JobSnapshot(job=None, faults=()).tested == {}

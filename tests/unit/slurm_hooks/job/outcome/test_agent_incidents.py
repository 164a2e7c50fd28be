"""How incidents that agents report change the launcher's decision."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from holdfast.policy.job.decision import decide
from holdfast.policy.job.facts import FailureKind, Next
from holdfast.records.incidents import Attribution, Incident, render
from holdfast.slurm.client import SlurmJob
from holdfast.vocabulary import SlurmName
from slurm_hooks.job.outcome.agent_incidents import AgentIncidents, since, with_incidents
from slurm_hooks.job.outcome.attempt_end import AttemptEnd, facts
from slurm_hooks.job.outcome.node_faults import JobSnapshot, NodeFault
from slurm_hooks.settings.job import JobConfig

NODES = (SlurmName("worker-0"), SlurmName("worker-1"))
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def entry(
    code: str = "XID13", node: str = "worker-1", gpu: int | None = 3, **more: object
) -> Incident:
    return Incident(code=code, node=node, gpu=gpu, at=100, **more)  # type: ignore[arg-type]


def snapshot(
    *entries: Incident, restarts: int = 0, faults: tuple[NodeFault, ...] | None = ()
) -> JobSnapshot:
    job = SlurmJob(
        job_id=7,
        name="train",
        user="alice",
        state="RUNNING",
        state_reason="",
        restarts=restarts,
        requeue=True,
        admin_comment=render(entries),
    )
    return JobSnapshot(job=job, faults=faults)


ENDED = AttemptEnd(
    exit_code=1,
    fingerprint="exit:1",
    progressed=False,
    kind=FailureKind.INFRASTRUCTURE,
    suspects=frozenset({NODES[0]}),
    cause=None,
)


@pytest.mark.parametrize("code", ["XID13", "XID31", "XID43", "XID69"])
def test_an_application_xid_is_attributed_to_the_job_and_clears_its_nodes(code: str) -> None:
    reported = since((), snapshot(entry(code, step="0")))
    assert reported.attribution is Attribution.JOB
    after = reported.applied_to(ENDED, snapshot())
    assert after.suspects == frozenset()
    assert after.kind is FailureKind.UNKNOWN
    assert after.fingerprint == f"xid:{code}"
    seen = with_incidents(snapshot(entry(code)), reported, NODES)
    known = facts(seen, after, [], 2, reported.job_fault)
    decision = decide(known, JobConfig(), NOW)
    assert decision.next is Next.RESTART
    assert decision.exclude == ()
    assert f"{code} (" in decision.why
    assert "on worker-1 GPU 3, step 0" in decision.why


def test_a_user_error_stays_a_user_error() -> None:
    reported = since((), snapshot(entry()))
    ended = replace(ENDED, kind=FailureKind.USER)
    assert reported.applied_to(ended, snapshot()).kind is FailureKind.USER


def test_a_broken_gpu_names_node_and_gpu_and_explains_the_applications_xid() -> None:
    seen = snapshot(entry(), entry("XID79", gpu=5))
    reported = since((), seen)
    assert reported.attribution is Attribution.NODE
    assert reported.job_fault == ""
    assert reported.applied_to(ENDED, snapshot()) is ENDED
    after = with_incidents(seen, reported, NODES)
    assert after.faults is not None
    (fault,) = after.faults
    assert (fault.node, fault.code, fault.gpu, fault.fatal, fault.out_of_service) == (
        "worker-1",
        "XID79",
        5,
        True,
        False,
    )
    decision = decide(facts(after, ENDED, [], 2), JobConfig(), NOW)
    assert (decision.next, decision.exclude) == (Next.REQUEUE, (NODES[1],))


def test_a_node_that_is_out_of_service_already_is_not_excluded_permanently() -> None:
    drained = NodeFault(node=NODES[1], code="XID79", detail="", fatal=True, gpu=5)
    seen = snapshot(entry("XID79", gpu=5), faults=(drained,))
    after = with_incidents(seen, since((), seen), NODES)
    assert after.faults == (drained,)
    decision = decide(facts(after, ENDED, [], 2), JobConfig(), NOW)
    assert (decision.next, decision.exclude) == (Next.REQUEUE, ())


def test_an_incident_of_a_check_in_observe_mode_is_recorded_and_has_no_effect() -> None:
    seen = snapshot(entry("XID79", observe_only=True))
    reported = since((), seen)
    assert with_incidents(seen, reported, NODES).faults == ()
    assert reported.records()[0]["observe_only"] is True


def test_a_node_that_the_job_does_not_use_is_ignored() -> None:
    seen = snapshot(entry("XID79", node="worker-9"))
    assert with_incidents(seen, since((), seen), NODES).faults == ()


def test_incidents_of_the_attempt_before_do_not_count() -> None:
    old, again = entry(), entry(count=2)
    assert since((old,), snapshot(old)).entries == ()
    assert since((old,), snapshot(again)).entries == (again,)


def test_incidents_of_an_earlier_run_do_not_count() -> None:
    assert since((), snapshot(entry(run=0), restarts=1)).entries == ()
    assert since((), snapshot(entry(run=1), restarts=1)).entries == (entry(run=1),)


def test_without_an_answer_from_slurm_there_are_no_incidents() -> None:
    blind = JobSnapshot(job=None, faults=None)
    assert since((), blind) == AgentIncidents()
    assert with_incidents(blind, AgentIncidents(), NODES) is blind


def test_killed_channels_are_attributed_to_nobody() -> None:
    reported = since((), snapshot(entry("XID45", count=900)))
    assert reported.attribution is Attribution.NONE
    assert reported.applied_to(ENDED, snapshot()) is ENDED


def test_a_drain_before_the_comment_is_attributed_to_the_node_as_well() -> None:
    drained = NodeFault(node=NODES[1], code="XID79", detail="", fatal=True, gpu=5)
    assert AgentIncidents().attribution_with(snapshot(faults=(drained,))) is Attribution.NODE
    reported = since((), snapshot(entry()))
    assert reported.attribution_with(snapshot(faults=(drained,))) is Attribution.NODE
    assert reported.applied_to(ENDED, snapshot(faults=(drained,))) is ENDED

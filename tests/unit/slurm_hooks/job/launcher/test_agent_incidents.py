"""What the nodes' agents told of an attempt, and what the launcher makes of it."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from holdfast.incidents import Attribution, Incident, render
from holdfast.policy.job import FailureKind, Next, decide
from holdfast.slurm.client import SlurmJob
from holdfast.vocabulary import SlurmName
from slurm_hooks.job.config import JobConfig
from slurm_hooks.job.launcher.agent_incidents import AgentIncidents, since, with_told
from slurm_hooks.job.launcher.node_faults import NodeFault, Sight
from slurm_hooks.job.launcher.outcome import AttemptEnd, facts

NODES = (SlurmName("worker-0"), SlurmName("worker-1"))
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def entry(
    code: str = "XID13", node: str = "worker-1", gpu: int | None = 3, **more: object
) -> Incident:
    return Incident(code=code, node=node, gpu=gpu, at=100, **more)  # type: ignore[arg-type]


def sight(
    *entries: Incident, restarts: int = 0, faults: tuple[NodeFault, ...] | None = ()
) -> Sight:
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
    return Sight(job=job, faults=faults)


ENDED = AttemptEnd(
    exit_code=1,
    fingerprint="exit:1",
    progressed=False,
    kind=FailureKind.INFRASTRUCTURE,
    suspects=frozenset({NODES[0]}),
    cause=None,
)


@pytest.mark.parametrize("code", ["XID13", "XID31", "XID43", "XID69"])
def test_an_application_xid_blames_the_job_and_clears_its_nodes(code: str) -> None:
    told = since((), sight(entry(code, step="0")))
    assert told.blames is Attribution.JOB
    after = told.cleared(ENDED, sight())
    assert after.suspects == frozenset()
    assert after.kind is FailureKind.UNKNOWN
    assert after.fingerprint == f"xid:{code}"
    known = facts(with_told(sight(entry(code)), told, NODES), after, [], 2, told.attribution)
    decision = decide(known, JobConfig(), NOW)
    assert decision.next is Next.RESTART
    assert decision.exclude == ()
    assert f"{code} (" in decision.why
    assert "on worker-1 GPU 3, step 0" in decision.why


def test_a_users_own_error_stays_one() -> None:
    from dataclasses import replace

    told = since((), sight(entry()))
    assert told.cleared(replace(ENDED, kind=FailureKind.USER), sight()).kind is FailureKind.USER


def test_a_broken_gpu_names_node_and_gpu_and_explains_the_applications_xid() -> None:
    seen = sight(entry(), entry("XID79", gpu=5))
    told = since((), seen)
    assert told.blames is Attribution.NODE
    assert told.attribution == ""
    assert told.cleared(ENDED, sight()) is ENDED
    after = with_told(seen, told, NODES)
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


def test_a_node_that_is_out_already_is_not_excluded_for_good() -> None:
    drained = NodeFault(node=NODES[1], code="XID79", detail="", fatal=True, gpu=5)
    seen = sight(entry("XID79", gpu=5), faults=(drained,))
    after = with_told(seen, since((), seen), NODES)
    assert after.faults == (drained,)
    decision = decide(facts(after, ENDED, [], 2), JobConfig(), NOW)
    assert (decision.next, decision.exclude) == (Next.REQUEUE, ())


def test_a_check_in_shadow_is_told_and_not_acted_on() -> None:
    seen = sight(entry("XID79", observe_only=True))
    told = since((), seen)
    assert with_told(seen, told, NODES).faults == ()
    assert told.records()[0]["observe_only"] is True


def test_a_node_of_another_job_is_no_node_of_ours() -> None:
    seen = sight(entry("XID79", node="worker-9"))
    assert with_told(seen, since((), seen), NODES).faults == ()


def test_an_attempt_in_place_does_not_answer_for_the_one_before() -> None:
    old, again = entry(), entry(count=2)
    assert since((old,), sight(old)).entries == ()
    assert since((old,), sight(again)).entries == (again,)


def test_what_befell_an_earlier_run_is_over() -> None:
    assert since((), sight(entry(run=0), restarts=1)).entries == ()
    assert since((), sight(entry(run=1), restarts=1)).entries == (entry(run=1),)


def test_without_an_answer_from_slurm_nothing_is_told() -> None:
    blind = Sight(job=None, faults=None)
    assert since((), blind) == AgentIncidents()
    assert with_told(blind, AgentIncidents(), NODES) is blind


def test_killed_channels_blame_nobody() -> None:
    told = since((), sight(entry("XID45", count=900)))
    assert told.blames is Attribution.NOBODY
    assert told.cleared(ENDED, sight()) is ENDED


def test_a_drain_that_came_before_the_comment_blames_the_node_all_the_same() -> None:
    drained = NodeFault(node=NODES[1], code="XID79", detail="", fatal=True, gpu=5)
    assert AgentIncidents().blames_with(sight(faults=(drained,))) is Attribution.NODE
    told = since((), sight(entry()))
    assert told.blames_with(sight(faults=(drained,))) is Attribution.NODE
    assert told.cleared(ENDED, sight(faults=(drained,))) is ENDED

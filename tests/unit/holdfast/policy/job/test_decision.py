"""What follows a failed attempt: limits, progress, and decisions of others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.policy.job.decision import decide
from holdfast.policy.job.facts import (
    FailureKind,
    JobDecision,
    JobFacts,
    Next,
    NodeEvidence,
    PastAttempt,
)
from holdfast.policy.job.failure_counts import attempts, same_failures
from holdfast.vocabulary import SlurmName

NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
A, B = SlurmName("worker-0"), SlurmName("worker-1")


@dataclass(frozen=True)
class Limits:
    max_attempts: int = 20
    max_same_failure: int = 3


def failed(cause: str = "exit:1", progressed: bool | None = False, **more: object) -> PastAttempt:
    attempt = PastAttempt(fingerprint=cause, progressed=progressed, ended_at=NOON)
    return replace(attempt, **more)  # type: ignore[arg-type]


def ask(*past: PastAttempt, limits: Limits | None = None, **about: object) -> JobDecision:
    facts = JobFacts(exit_code=1, current=failed(), past=past, node_count=2)
    return decide(replace(facts, **about), limits or Limits(), NOON)  # type: ignore[arg-type]


def test_success_finishes() -> None:
    assert ask(exit_code=0).next is Next.FINISH


@pytest.mark.parametrize("who", ["CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED"])
def test_a_job_that_somebody_ended_stays_ended(who: str) -> None:
    bad = (NodeEvidence(node=A, code="XID79", fatal=True),)
    assert ask(ended_by=who, nodes=bad).next is Next.FAIL
    assert ask(ended_by=who, exit_code=0).next is Next.FAIL


@pytest.mark.parametrize(
    ("about", "word"), [({"exit_code": 93}, "93"), ({"requeue": False}, "--no")]
)
def test_the_jobs_exit_code_counts_even_on_a_bad_node(about: dict[str, object], word: str) -> None:
    bad = (NodeEvidence(node=A, code="XID79", fatal=True),)
    decision = ask(nodes=bad, **about)  # type: ignore[arg-type]
    assert decision.next is Next.FAIL
    assert word in decision.why


def test_a_bad_node_means_other_nodes() -> None:
    bad = (
        NodeEvidence(node=B, code="ROW_REMAP_PENDING", fatal=False, out_of_service=False),
        NodeEvidence(node=A, code="XID79", fatal=True),
    )
    decision = ask(nodes=bad)
    assert decision.next is Next.REQUEUE
    assert "worker-0 (XID79) and 1 more" in decision.why
    assert decision.exclude == (B,)  # the drained one needs no exclusion that would stay for good


def test_a_bad_node_is_not_charged_to_the_job() -> None:
    past = [failed(node_fault=True) for _ in range(10)]
    assert ask(*past).next is Next.RESTART


def test_a_first_failure_starts_again_here_and_at_once() -> None:
    decision = ask()
    assert (decision.next, decision.delay_s) == (Next.RESTART, 0.0)
    assert ask(failed("exit:2")).delay_s > 0


def test_the_third_failure_alike_without_progress_is_held() -> None:
    assert ask(failed()).next is Next.RESTART
    decision = ask(failed(), failed())
    assert decision.next is Next.HOLD
    assert "3 times" in decision.why


def test_progress_resets_the_counter() -> None:
    assert ask(failed(), failed(progressed=True), failed()).next is Next.RESTART
    assert ask(failed(), failed(), current=failed(progressed=True)).next is Next.RESTART


def test_unknown_progress_is_not_zero_progress() -> None:
    unknown = failed(progressed=None)
    assert ask(unknown, unknown, unknown).next is Next.RESTART
    assert ask(failed(), failed(), current=unknown).next is Next.RESTART
    # ... and it is no progress either: it does not reset the counters.
    assert ask(failed(), unknown, failed()).next is Next.HOLD


def test_failures_that_never_look_alike_are_held_in_the_end() -> None:
    past = [failed(f"exit:{number}") for number in range(2, 7)]
    assert ask(*past[:-1]).next is Next.RESTART
    assert ask(*past).next is Next.HOLD


def test_an_error_of_the_user_is_held_after_the_second() -> None:
    wrong = failed(kind=FailureKind.USER)
    assert ask(current=wrong).next is Next.RESTART
    assert ask(wrong, current=wrong).next is Next.HOLD


def test_an_error_of_most_ranks_is_held_at_once_unless_there_may_be_progress() -> None:
    def after(*past: PastAttempt, progressed: bool | None = False) -> Next:
        own = failed("U01", progressed=progressed, kind=FailureKind.USER)
        return ask(*past, current=own, most_ranks=True).next

    assert after() is Next.HOLD
    assert after(failed("exit:1")) is Next.HOLD
    assert after(progressed=None) is Next.RESTART
    for earlier in (True, None):
        assert after(failed("exit:1", progressed=earlier)) is Next.RESTART
    other = failed("U01", kind=FailureKind.MEMORY)
    assert ask(current=other, most_ranks=True).next is Next.RESTART


def test_a_numeric_error_on_one_node_counts_also_with_progress_between() -> None:
    nan = failed("F01", kind=FailureKind.NUMERIC, suspects=frozenset({A}))
    further = replace(nan, progressed=True)
    decision = ask(further, current=further)
    assert (decision.next, decision.exclude) == (Next.REQUEUE, (A,))
    assert ask(replace(further, suspects=frozenset({B})), current=further).next is Next.RESTART
    old = replace(further, ended_at=NOON - timedelta(hours=25))
    assert ask(old, current=further).next is Next.RESTART
    assert ask(replace(further, settled=True), current=further).next is Next.RESTART


def test_an_error_of_the_user_at_the_same_place_after_progress_is_held() -> None:
    """As after a bad sample: the attempt came to the same place again and got no further."""
    wrong = failed(kind=FailureKind.USER)
    first = replace(wrong, progressed=True)
    assert ask(current=first).next is Next.RESTART
    assert ask(first, current=wrong).next is Next.HOLD
    assert ask(replace(first, fingerprint="exit:2"), current=wrong).next is Next.RESTART


def test_attempts_of_any_kind_are_limited_within_a_day() -> None:
    limits = Limits(max_attempts=3)
    past = [failed(node_fault=True), failed(node_fault=True)]
    bad = (NodeEvidence(node=A, code="XID79", fatal=True),)
    assert ask(*past, limits=limits, nodes=bad).next is Next.HOLD
    old = [replace(one, ended_at=NOON - timedelta(hours=25)) for one in past]
    assert ask(*old, limits=limits, nodes=bad).next is Next.REQUEUE


def test_two_equal_failures_attributed_to_one_node_exclude_it() -> None:
    blaming = failed(suspects=frozenset({B}))
    decision = ask(blaming, current=blaming)
    assert (decision.next, decision.exclude) == (Next.REQUEUE, (B,))
    all_of_them = failed(suspects=frozenset({A, B}))
    assert ask(all_of_them, current=all_of_them).next is Next.RESTART


def test_a_preempted_attempt_is_not_charged() -> None:
    assert ask(failed(charged=False), failed(charged=False)).next is Next.RESTART


def test_only_failures_of_a_day_count() -> None:
    old = failed(ended_at=NOON - timedelta(hours=25))
    assert ask(old, old).next is Next.RESTART
    assert ask(old, failed(), failed()).next is Next.HOLD


def test_failures_are_counted_for_each_cause() -> None:
    """Other failures between them do not hide that one comes back."""
    assert ask(failed(), failed("exit:2"), failed()).next is Next.HOLD


@pytest.mark.parametrize("count", [5, 100])
def test_what_slurm_or_a_person_ended_is_no_attempt_of_the_job(count: int) -> None:
    """Preemption, time limit, maintenance, scancel, requeue."""
    preempted = failed(charged=False, by_others=True)
    assert ask(*[preempted] * count).next is Next.RESTART
    assert ask(failed(), *[preempted] * count, failed()).next is Next.HOLD


def test_a_released_job_begins_anew() -> None:
    """A person has looked at the cause, and a single failure must not hold the job again."""
    held = failed(settled=True)
    assert ask(failed(), failed(), held).next is Next.RESTART
    assert ask(failed(), held, failed(), failed()).next is Next.HOLD


def test_a_job_that_makes_progress_is_never_held() -> None:
    limits = Limits(max_attempts=3)
    steps = [failed(progressed=True)] * 50
    assert ask(*steps, current=failed(progressed=True), limits=limits).next is Next.RESTART
    assert ask(*steps, failed(), limits=limits).next is Next.RESTART
    assert ask(*steps, failed("exit:2"), failed("exit:3"), limits=limits).next is Next.HOLD


def outage(number: int = 1, **more: object) -> PastAttempt:
    return failed(f"S02:{number}", kind=FailureKind.OUTAGE, **more)  # type: ignore[arg-type]


def test_an_outage_is_waited_for_longer_and_longer() -> None:
    past = [outage(number) for number in range(6)]
    waits = [ask(*past[:count], current=outage(9)).delay_s for count in range(6)]
    assert waits == [15, 300, 600, 1200, 1200, 1200]
    assert sum(waits[:4]) > 30 * 60


@pytest.mark.parametrize("progressed", [False, None])
def test_an_outage_is_held_after_ten_failures(progressed: bool | None) -> None:
    """Its progress is not known where the checkpoints cannot be read, and the loop must end too."""
    past = [outage(number, progressed=progressed) for number in range(9)]
    assert ask(*past[:-1], current=outage(9, progressed=progressed)).next is Next.RESTART
    assert ask(*past, current=outage(9, progressed=progressed)).next is Next.HOLD
    advanced = [*past, outage(9, progressed=True)]
    assert ask(*advanced, current=outage(9)).delay_s == 15


def test_an_outage_is_no_failure_of_the_job() -> None:
    assert ask(failed(), outage(), outage(), failed("exit:2")).next is Next.RESTART
    assert ask(failed(), failed(), current=outage()).next is Next.RESTART


def test_a_bad_node_outranks_an_outage() -> None:
    bad = (NodeEvidence(node=A, code="MOUNT_GONE", fatal=True),)
    assert ask(current=outage(), nodes=bad).next is Next.REQUEUE


def named(*nodes: SlurmName) -> PastAttempt:
    return failed("C04", kind=FailureKind.NODE, suspects=frozenset(nodes))


def test_a_node_that_the_output_names_as_faulty_is_excluded_at_once() -> None:
    decision = ask(current=named(B))
    assert (decision.next, decision.exclude) == (Next.REQUEUE, (B,))
    assert ask(current=named(B), node_count=1).exclude == (B,)


@pytest.mark.parametrize(
    "about",
    [
        {"current": named(A, B)},  # the output does not tell the nodes apart
        {"spares": 0},  # the job would wait for ever
        {"requeue": None},
    ],
)
def test_a_named_node_is_tried_again_where_it_cannot_be_excluded(about: dict[str, object]) -> None:
    decision = ask(**{"current": named(B), **about})  # type: ignore[arg-type]
    assert (decision.next, decision.exclude) == (Next.RESTART, ())


def test_a_checkpoint_that_cannot_be_loaded_leads_to_the_next_one_or_to_a_hold() -> None:
    torn = failed("S04", kind=FailureKind.CHECKPOINT)
    assert ask(torn, torn, torn, current=torn, next_checkpoint="step_8.pt").next is Next.RESTART
    assert ask(current=torn).next is Next.RESTART
    assert ask(torn, current=torn).next is Next.HOLD


def test_unknown_node_states_are_reported() -> None:
    assert "did not report" in ask(nodes=None).why


ATTEMPTS = st.builds(
    PastAttempt,
    fingerprint=st.sampled_from(["exit:1", "exit:2", ""]),
    progressed=st.sampled_from([None, False, True]),
    kind=st.sampled_from(FailureKind),
    node_fault=st.booleans(),
    charged=st.booleans(),
    by_others=st.booleans(),
    settled=st.booleans(),
    suspects=st.sets(st.sampled_from([A, B])).map(frozenset),
    ended_at=st.just(NOON),
)
FACTS = st.builds(
    JobFacts,
    exit_code=st.sampled_from([None, 0, 1, 93, 137]),
    current=ATTEMPTS,
    ended_by=st.sampled_from(["", "CANCELLED"]),
    requeue=st.sampled_from([None, False, True]),
    nodes=st.one_of(
        st.none(),
        st.lists(
            st.builds(
                NodeEvidence,
                node=st.sampled_from([A, B]),
                code=st.just("XID79"),
                fatal=st.booleans(),
                out_of_service=st.booleans(),
            ),
            max_size=2,
        ).map(tuple),
    ),
    past=st.lists(ATTEMPTS, max_size=25),
    node_count=st.integers(1, 4),
    most_ranks=st.booleans(),
    both_ends=st.booleans(),
)


@settings(max_examples=500, deadline=None)
@given(FACTS)
def test_the_limits_hold_in_any_situation(facts: JobFacts) -> None:
    decision = decide(facts, Limits(), NOON)
    goes_on = decision.next in (Next.RESTART, Next.REQUEUE)
    if facts.ended_by or facts.requeue is False or facts.exit_code == 93:
        assert not goes_on
    if goes_on:
        assert attempts(facts, NOON) < Limits().max_attempts
    if facts.current.progressed:
        assert decision.next is not Next.HOLD
    if decision.next is Next.RESTART:
        assert not facts.nodes  # nothing is started on a suspect node
        assert same_failures(facts, NOON) < Limits().max_same_failure
    assert decision.why

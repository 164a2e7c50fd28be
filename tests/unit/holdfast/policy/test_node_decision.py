"""Rules 2, 3 and 5 on one node: who may drain it, and what returns it to service."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from holdfast.findings import Verdict
from holdfast.policy.node_inputs import Move, NodeDecision
from holdfast.policy.ownership import is_own_drain
from holdfast.reason import Reason
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import Action, Mode, NodeState, Severity
from tests.unit.holdfast.policy.node_examples import (
    BAD,
    BOOT,
    FELL_OFF,
    FULL,
    HEALTHY,
    IDLE,
    LATER,
    LIMITS,
    NEXT_BOOT,
    NOON,
    OUR_TEXT,
    ask,
    drained,
    record,
)

# --- leaving service


def test_a_fatal_finding_drains_with_holdfasts_reason() -> None:
    decision = ask()
    assert decision.move is Move.DRAIN
    assert decision.reason == OUR_TEXT
    assert decision.finding == FELL_OFF


def test_the_configuration_can_mark_reasons_for_soperator() -> None:
    decision = ask(limits=replace(LIMITS, node_problem=True))
    assert decision.reason == f"[node_problem] {OUR_TEXT}"


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.OBSERVE, Mode.COMMENT, None])
def test_a_check_drains_only_in_mode_drain(mode: Mode | None) -> None:
    modes = {"gpu_xid": mode} if mode else {}
    assert ask(modes=modes).move is (Move.COMMENT if mode is Mode.COMMENT else Move.NONE)


def test_beyond_the_budget_the_node_gets_a_comment() -> None:
    decision = ask(admission=FULL)
    assert decision.move is Move.COMMENT
    assert decision.over_budget
    assert decision.reason.startswith("holdfast:XID79: over budget: ")
    again = ask(admission=FULL, node=replace(IDLE, comment=decision.reason))
    assert again.move is Move.NONE
    assert again.over_budget


def test_an_uncounted_budget_admits_no_node() -> None:
    assert ask(admission=None).move is not Move.DRAIN


def test_an_unknown_xid_is_a_comment_and_never_drains() -> None:
    unknown = replace(FELL_OFF, code="XID999", severity=Severity.WARN, action=Action.NONE)
    assert ask(verdict=Verdict(findings=(unknown,))).move is Move.COMMENT


def test_a_pending_row_remap_drains_and_jobs_go_on() -> None:
    pending = replace(
        FELL_OFF, code="ROW_REMAP_PENDING", severity=Severity.WARN, action=Action.RESET_GPU
    )
    assert ask(verdict=Verdict(findings=(pending,))).move is Move.DRAIN


def test_an_application_fault_is_no_evidence_against_the_node() -> None:
    page_fault = replace(FELL_OFF, code="XID31", severity=Severity.INFO, action=Action.RESTART_JOB)
    assert ask(verdict=Verdict(findings=(page_fault,))).move is Move.NONE


def test_blindness_alone_neither_drains_nor_clears_a_comment() -> None:
    ours = replace(IDLE, comment="holdfast:MOUNT_FULL: /mnt/training full")
    assert ask(verdict=Verdict(blind=("nvml",)), node=ours).move is Move.NONE


def test_an_outdated_comment_is_cleared() -> None:
    ours = replace(IDLE, comment="holdfast:MOUNT_FULL: /mnt/training full")
    decision = ask(verdict=HEALTHY, node=ours)
    assert (decision.move, decision.reason) == (Move.COMMENT, "")


@pytest.mark.parametrize(
    ("there", "move"),
    [
        ("mlx5_3/1 lost its link 2 times", Move.NONE),
        ("mlx5_4/1 lost its link 3 times", Move.COMMENT),
    ],
)
def test_a_comment_is_not_rewritten_for_a_higher_count(there: str, move: Move) -> None:
    finding = replace(
        FELL_OFF, severity=Severity.WARN, code="IB_ERRORS", detail="mlx5_3/1 lost its link 3 times"
    )
    comment = str(Reason("IB_ERRORS", there, {"boot": BOOT[:8], "gpu": "3"}))
    modes = {"gpu_xid": Mode.COMMENT}
    node = replace(IDLE, comment=comment)
    assert ask(verdict=Verdict(findings=(finding,)), modes=modes, node=node).move is move


def test_another_users_comment_is_never_overwritten() -> None:
    theirs = replace(IDLE, comment="reserved for Ada until Friday")
    assert ask(admission=FULL, node=theirs).move is Move.NONE
    assert ask(verdict=HEALTHY, node=theirs).move is Move.NONE


def test_a_prolog_error_gets_the_fault_as_its_reason() -> None:
    decision = ask(node=drained("Prolog error", user="slurm"))
    assert decision.move is Move.DRAIN
    assert ask(node=drained("Prolog error", user="slurm"), verdict=HEALTHY).move is Move.NONE


def test_a_node_that_a_person_set_down_keeps_its_reason() -> None:
    down = replace(
        IDLE, states=frozenset({NodeState.DOWN}), reason="burnt", reason_user="ada", reason_at=NOON
    )
    assert ask(node=down).move is Move.NONE


# --- whose drain


@pytest.mark.parametrize("verdict", [BAD, HEALTHY, Verdict(blind=("nvml",))])
def test_a_persons_drain_is_never_touched(verdict: Verdict) -> None:
    theirs = drained("swapping DIMM", user="ada")
    for own in (None, record()):
        decision = ask(verdict=verdict, node=theirs, record=own, clean_passes=99, boot_id=NEXT_BOOT)
        assert decision.move is Move.NONE
        assert decision.forget is (own is not None)


@pytest.mark.parametrize(
    "node",
    [
        drained(user="ada"),
        drained(at=NOON + timedelta(seconds=1)),
        drained(OUR_TEXT + " "),
        drained(OUR_TEXT + " : Kill task failed"),
        drained("holdfast:XID79: GPU 4 boot=aaaaaaaa gpu=4"),
    ],
    ids=["other actor", "other time", "other text", "a fault on top", "another of ours"],
)
def test_text_alone_proves_nothing(node: SlurmNode) -> None:
    assert not is_own_drain(record(), node)
    decision = ask(verdict=HEALTHY, node=node, record=record(), clean_passes=9, boot_id=NEXT_BOOT)
    assert decision.move is Move.NONE


@pytest.mark.parametrize("words", ["Not responding", "reboot issued"])
def test_a_drain_stays_holdfasts_own_when_slurmctld_appends_to_it(words: str) -> None:
    """ "reboot issued": a person did what the reason requires, by ``scontrol reboot``."""
    lost = drained(f"{OUR_TEXT} : {words}", user="slurm", at=LATER)
    assert is_own_drain(record(), lost)
    assert ask(
        verdict=HEALTHY, node=lost, record=record(), boot_id=NEXT_BOOT, clean_passes=2
    ).move is (Move.UNDRAIN)


def test_a_write_that_could_not_be_read_back_is_proven_by_this_machines_clock() -> None:
    unread = replace(record(), at=None)
    assert is_own_drain(unread, drained(at=NOON + timedelta(seconds=2)))
    assert not is_own_drain(unread, drained(at=NOON + timedelta(hours=1)))


def test_a_record_without_its_drain_is_removed() -> None:
    decision = ask(verdict=HEALTHY, node=IDLE, record=record())
    assert (decision.move, decision.forget) == (Move.NONE, True)


# --- returning to service


def back(**about: object) -> NodeDecision:
    facts: dict[str, object] = {
        "verdict": HEALTHY,
        "node": drained(instance_id="computeinstance-1"),
        "record": record(),
        "clean_passes": 2,
    }
    return ask(**(facts | about))  # type: ignore[arg-type]


def test_a_node_waits_for_its_reboot() -> None:
    assert back().move is Move.NONE
    decision = back(boot_id=NEXT_BOOT)
    assert (decision.move, decision.forget) == (Move.UNDRAIN, True)


def test_a_replacement_needs_another_instance() -> None:
    own = record(Action.REPLACE)
    assert back(record=own, boot_id=NEXT_BOOT).move is Move.NONE
    other = drained(instance_id="computeinstance-9")
    assert back(record=own, boot_id=NEXT_BOOT, node=other).move is Move.UNDRAIN
    unknown = drained(instance_id="")
    assert back(record=own, boot_id=NEXT_BOOT, node=unknown).move is Move.NONE


@pytest.mark.parametrize(
    ("recovered", "boot", "move"),
    [
        (None, BOOT, Move.NONE),
        (False, BOOT, Move.NONE),
        (True, BOOT, Move.UNDRAIN),
        (None, NEXT_BOOT, Move.UNDRAIN),
    ],
)
def test_a_reset_is_confirmed_by_the_gpu_or_by_a_boot(
    recovered: bool | None, boot: str, move: Move
) -> None:
    own = record(Action.RESET_GPU)
    assert back(record=own, gpu_recovered=recovered, boot_id=boot).move is move


def test_a_minimum_time_passes_even_after_clean_passes() -> None:
    own = record(Action.WAIT)
    assert back(record=own, now=NOON + timedelta(seconds=29)).move is Move.NONE
    assert back(record=own, now=NOON + timedelta(seconds=30)).move is Move.UNDRAIN


def test_a_fault_that_needs_a_person_never_returns_by_itself() -> None:
    own = record(Action.CONTACT_SUPPORT)
    other = drained(instance_id="computeinstance-9")
    assert back(record=own, boot_id=NEXT_BOOT, node=other, gpu_recovered=True).move is Move.NONE


@pytest.mark.parametrize("passes", [0, 1])
def test_the_recheck_must_pass_often_enough(passes: int) -> None:
    assert back(boot_id=NEXT_BOOT, clean_passes=passes).move is Move.NONE


def test_no_return_while_a_probe_is_blind() -> None:
    blind = Verdict(blind=("nvml",))
    assert back(boot_id=NEXT_BOOT, verdict=blind).move is Move.NONE


@pytest.mark.parametrize(
    "state",
    [
        NodeState.DOWN,
        NodeState.INVALID_REG,
        NodeState.NOT_RESPONDING,
        NodeState.FAIL,
        NodeState.REBOOT_REQUESTED,
    ],
)
def test_no_return_while_slurm_has_another_cause(state: NodeState) -> None:
    node = drained()
    stuck = replace(node, states=node.states | {state})
    assert back(boot_id=NEXT_BOOT, node=stuck).move is Move.NONE


def test_no_return_while_another_fault_is_open() -> None:
    assert back(boot_id=NEXT_BOOT, verdict=BAD).move is Move.NONE


def test_a_fault_that_requires_more_renews_the_reason() -> None:
    worse = replace(FELL_OFF, code="ROW_REMAP_FAILED", action=Action.REPLACE)
    decision = back(verdict=Verdict(findings=(worse,)))
    assert decision.move is Move.DRAIN
    assert Reason.parse(decision.reason) is not None
    assert back(verdict=BAD).move is Move.NONE  # the same fault again: nothing is sent twice


FLAPS = Verdict(findings=(replace(FELL_OFF, code="IB_FLAP", action=Action.WAIT, gpu=None),))


def test_the_reason_changes_to_the_fault_that_is_open() -> None:
    decision = back(verdict=FLAPS, boot_id=NEXT_BOOT)
    assert decision.move is Move.DRAIN
    assert decision.reason.startswith("holdfast:IB_FLAP: ")
    both = Verdict(findings=(*FLAPS.findings, FELL_OFF))
    assert back(verdict=both, boot_id=NEXT_BOOT).move is Move.NONE


def test_a_weaker_fault_does_not_replace_a_pending_requirement() -> None:
    assert back(verdict=FLAPS, boot_id=BOOT).move is Move.NONE


def test_drains_beyond_the_budget_withdraw_with_a_comment() -> None:
    decision = back(verdict=BAD, must_withdraw=True)
    assert decision.move is Move.WITHDRAW
    assert decision.over_budget
    assert "over budget" in decision.reason
    theirs = drained(comment="reserved for Ada until Friday")
    assert back(verdict=BAD, must_withdraw=True, node=theirs).reason == ""


def test_a_fault_that_no_user_can_cause_comes_before_one_that_users_can() -> None:
    """Otherwise a user who fills the disk of a node with a bad link would keep that link in service."""
    full = replace(FELL_OFF, code="DISK_FULL", severity=Severity.WARN, check="disks", gpu=None)
    flap = replace(FELL_OFF, code="IB_FLAP", severity=Severity.WARN, check="infiniband", gpu=None)
    modes = {"disks": Mode.DRAIN, "infiniband": Mode.DRAIN}
    for findings in ((full, flap), (flap, full)):
        decision = ask(verdict=Verdict(findings=findings), modes=modes)
        assert decision.finding == flap

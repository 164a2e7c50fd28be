"""The gate back: what a node's active check may and may not do to its return."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.findings import Verdict
from holdfast.policy.node import decide
from holdfast.policy.node_inputs import Decision, Move
from holdfast.policy.return_test import GateBack, Held, Trial, opens
from holdfast.reason import Reason
from tests.unit.holdfast.policy.node_examples import (
    BAD,
    HEALTHY,
    IDLE,
    LATER,
    LIMITS,
    NEXT_BOOT,
    OUR_TEXT,
    drained,
    record,
    situation,
)

PASSED = Trial(reason=OUR_TEXT, check="host", verdict="passed")
FAILED = replace(PASSED, verdict="failed", detail="GPU 3 is not there")
COULD_NOT = replace(PASSED, verdict="could-not-run", detail="dcgmi not found in PATH")


def ask(gate: GateBack, trial: Trial | None = None, **about: object) -> Decision:
    """A node of ours whose fault is over, rebooted and re-checked."""
    base = {"verdict": HEALTHY, "node": drained(), "record": record(), "boot_id": NEXT_BOOT}
    known = situation(**{**base, "clean_passes": 2, "trial": trial, **about})
    return decide(known, replace(LIMITS, gate=gate), LATER)


def test_without_a_gate_nothing_is_tested() -> None:
    assert ask(GateBack.OFF).move is Move.UNDRAIN


@pytest.mark.parametrize("gate", [GateBack.OBSERVE, GateBack.REQUIRE])
def test_with_a_gate_the_test_comes_first_and_after_the_re_check(gate: GateBack) -> None:
    assert ask(gate).move is Move.TEST
    assert ask(gate, clean_passes=1).move is Move.NONE
    assert ask(gate, verdict=Verdict(blind=("nvml",))).move is Move.NONE
    assert ask(gate, verdict=BAD).move is Move.NONE


def test_what_was_said_of_another_drain_counts_for_nothing() -> None:
    assert ask(GateBack.REQUIRE, replace(PASSED, reason="holdfast:XID48: x")).move is Move.TEST


@pytest.mark.parametrize("trial", [FAILED, COULD_NOT])
def test_required_means_that_only_a_pass_gives_the_node_back(trial: Trial) -> None:
    decision = ask(GateBack.REQUIRE, trial)
    assert decision.move is Move.COMMENT
    said = Reason.parse(decision.reason)
    assert said is not None
    assert said.code == "XID79"
    assert said.detail == f"re-test host {trial.verdict}: {trial.detail}"
    again = ask(GateBack.REQUIRE, trial, node=replace(drained(), comment=decision.reason))
    assert again.move is Move.NONE, "said once"
    theirs = ask(GateBack.REQUIRE, trial, node=replace(drained(), comment="ask Bob"))
    assert theirs.move is Move.NONE
    assert ask(GateBack.REQUIRE, PASSED).move is Move.UNDRAIN


def test_observing_gives_it_back_whatever_was_said() -> None:
    for trial in (PASSED, FAILED, COULD_NOT):
        assert ask(GateBack.OBSERVE, trial).move is Move.UNDRAIN


# --- while the node is kept for its test: undrained, but nobody else's


def test_a_passed_test_ends_in_service_and_every_other_one_in_the_old_drain() -> None:
    held = {"node": IDLE, "held": Held.BY_US}
    assert ask(GateBack.REQUIRE, PASSED, **held).move is Move.UNDRAIN
    for trial in (FAILED, COULD_NOT, None):
        assert ask(GateBack.REQUIRE, trial, **held).move is Move.RESTORE


def test_a_fault_during_the_test_outweighs_its_result() -> None:
    held = {"node": IDLE, "held": Held.BY_US}
    decision = ask(GateBack.REQUIRE, PASSED, verdict=BAD, **held)
    assert decision.move is Move.RESTORE
    assert "XID79 came up during the test" in decision.why
    blind = Verdict(blind=("nvml",))
    assert ask(GateBack.REQUIRE, PASSED, verdict=blind, **held).move is Move.RESTORE


def test_a_test_left_behind_is_ended_even_without_a_record_or_a_gate() -> None:
    held = {"node": IDLE, "held": Held.BY_US}
    assert ask(GateBack.OFF, None, **held).move is Move.RESTORE
    assert ask(GateBack.REQUIRE, PASSED, record=None, **held).move is Move.RESTORE


def test_an_inspection_by_others_is_left_alone_fault_or_not() -> None:
    for verdict in (HEALTHY, BAD):
        held = {"node": IDLE, "held": Held.BY_OTHERS, "verdict": verdict}
        assert ask(GateBack.REQUIRE, None, **held).move is Move.NONE


def test_the_kill_switch_stops_tests_too() -> None:
    assert ask(GateBack.REQUIRE, switched_off=True).move is Move.NONE


def test_opens() -> None:
    assert opens(GateBack.OFF, None, "r") is True
    assert opens(GateBack.REQUIRE, None, "r") is None
    assert opens(GateBack.OBSERVE, FAILED, OUR_TEXT) is True
    assert opens(GateBack.REQUIRE, FAILED, OUR_TEXT) is False

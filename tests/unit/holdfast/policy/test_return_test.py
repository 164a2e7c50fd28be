"""The return test: how an active check affects a node's return to service."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.findings import Verdict
from holdfast.policy.node_decision import decide
from holdfast.policy.node_inputs import Move, NodeDecision
from holdfast.policy.return_test import ReservedBy, ReturnTestMode, ReturnTestResult, may_return
from holdfast.reason import Reason
from tests.unit.holdfast.policy.node_examples import (
    BAD,
    HEALTHY,
    IDLE,
    LIMITS,
    NEXT_BOOT,
    OUR_TEXT,
    drained,
    record,
    situation,
)

PASSED = ReturnTestResult(reason=OUR_TEXT, check="host", verdict="passed")
FAILED = replace(PASSED, verdict="failed", detail="GPU 3 is not there")
COULD_NOT = replace(PASSED, verdict="error", detail="dcgmi not found in PATH")


def ask(
    mode: ReturnTestMode, test_result: ReturnTestResult | None = None, **about: object
) -> NodeDecision:
    """A node that Holdfast drained, whose fault is over, rebooted and re-checked."""
    base = {"verdict": HEALTHY, "node": drained(), "record": record(), "boot_id": NEXT_BOOT}
    known = situation(**{**base, "clean_passes": 2, "test_result": test_result, **about})
    return decide(replace(known, limits=replace(LIMITS, return_test=mode)))


def test_without_a_return_test_nothing_is_tested() -> None:
    assert ask(ReturnTestMode.OFF).move is Move.UNDRAIN


@pytest.mark.parametrize("mode", [ReturnTestMode.OBSERVE, ReturnTestMode.REQUIRE])
def test_a_required_test_runs_after_the_re_check_and_before_the_return(
    mode: ReturnTestMode,
) -> None:
    assert ask(mode).move is Move.TEST
    assert ask(mode, clean_passes=1).move is Move.NONE
    assert ask(mode, verdict=Verdict(blind=("nvml",))).move is Move.NONE
    assert ask(mode, verdict=BAD).move is Move.NONE


def test_the_result_for_another_drain_does_not_count() -> None:
    assert (
        ask(ReturnTestMode.REQUIRE, replace(PASSED, reason="holdfast:XID48: x")).move is Move.TEST
    )


@pytest.mark.parametrize("test_result", [FAILED, COULD_NOT])
def test_required_means_that_only_a_pass_returns_the_node(test_result: ReturnTestResult) -> None:
    decision = ask(ReturnTestMode.REQUIRE, test_result)
    assert decision.move is Move.COMMENT
    reason = Reason.parse(decision.reason)
    assert reason is not None
    assert reason.code == "XID79"
    assert reason.detail == f"re-test host {test_result.verdict}: {test_result.detail}"
    again = ask(
        ReturnTestMode.REQUIRE, test_result, node=replace(drained(), comment=decision.reason)
    )
    assert again.move is Move.NONE, "written once"
    theirs = ask(ReturnTestMode.REQUIRE, test_result, node=replace(drained(), comment="ask Bob"))
    assert theirs.move is Move.NONE
    assert ask(ReturnTestMode.REQUIRE, PASSED).move is Move.UNDRAIN


def test_in_observe_mode_any_result_returns_the_node() -> None:
    for test_result in (PASSED, FAILED, COULD_NOT):
        assert ask(ReturnTestMode.OBSERVE, test_result).move is Move.UNDRAIN


# --- during the test: undrained, and reserved


def test_a_passed_test_ends_in_service_and_every_other_one_in_the_old_drain() -> None:
    reserved = {"node": IDLE, "reserved_by": ReservedBy.THIS_AGENT}
    assert ask(ReturnTestMode.REQUIRE, PASSED, **reserved).move is Move.UNDRAIN
    for test_result in (FAILED, COULD_NOT, None):
        assert ask(ReturnTestMode.REQUIRE, test_result, **reserved).move is Move.RESTORE


def test_a_fault_during_the_test_outweighs_its_result() -> None:
    reserved = {"node": IDLE, "reserved_by": ReservedBy.THIS_AGENT}
    decision = ask(ReturnTestMode.REQUIRE, PASSED, verdict=BAD, **reserved)
    assert decision.move is Move.RESTORE
    assert "XID79 was found during the test" in decision.why
    blind = Verdict(blind=("nvml",))
    assert ask(ReturnTestMode.REQUIRE, PASSED, verdict=blind, **reserved).move is Move.RESTORE


def test_a_test_left_behind_is_ended_even_without_a_record_or_a_gate() -> None:
    reserved = {"node": IDLE, "reserved_by": ReservedBy.THIS_AGENT}
    assert ask(ReturnTestMode.OFF, None, **reserved).move is Move.RESTORE
    assert ask(ReturnTestMode.REQUIRE, PASSED, record=None, **reserved).move is Move.RESTORE


def test_an_inspection_by_others_is_left_alone_fault_or_not() -> None:
    for verdict in (HEALTHY, BAD):
        reserved = {"node": IDLE, "reserved_by": ReservedBy.OTHERS, "verdict": verdict}
        assert ask(ReturnTestMode.REQUIRE, None, **reserved).move is Move.NONE


def test_opens() -> None:
    assert may_return(ReturnTestMode.OFF, None, "r") is True
    assert may_return(ReturnTestMode.REQUIRE, None, "r") is None
    assert may_return(ReturnTestMode.OBSERVE, FAILED, OUR_TEXT) is True
    assert may_return(ReturnTestMode.REQUIRE, FAILED, OUR_TEXT) is False

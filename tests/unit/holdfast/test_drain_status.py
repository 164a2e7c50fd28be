"""Who drained a node, how sure that is, and what returns the node to service."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.drain_status import AgentReport, Owner, drain_status, required_action_in
from holdfast.reason import Reason
from holdfast.vocabulary import Action, NodeState
from tests.unit.holdfast.drain_examples import AT, drained, made, node


@pytest.mark.parametrize(
    ("states", "reason", "owner", "back"),
    [
        ((NodeState.IDLE,), "", Owner.NOBODY, ""),
        ((NodeState.IDLE,), "holdfast:XID79: left over", Owner.NOBODY, ""),
        ((NodeState.IDLE, NodeState.DRAIN), "holdfast:XID79: x", Owner.AGENT, "Reboot the node"),
        (
            (NodeState.IDLE, NodeState.DRAIN),
            "holdfast:KUBE_CORDON: x",
            Owner.BRIDGE,
            "If Holdfast drained it",
        ),
        ((NodeState.IDLE, NodeState.DRAIN), "swap DIMM", Owner.OTHER, "Drained by root; resume it"),
        ((NodeState.IDLE, NodeState.DRAIN), "", Owner.OTHER, "Drained by root; resume it"),
        ((NodeState.DOWN,), "Not responding", Owner.SLURM, "by Slurm itself"),
        ((NodeState.IDLE, NodeState.NOT_RESPONDING), "", Owner.SLURM, "returns by itself"),
        ((NodeState.DOWN, NodeState.NOT_RESPONDING), "Not responding", Owner.SLURM, "by itself"),
        ((NodeState.IDLE, NodeState.MAINTENANCE), "", Owner.SLURM, "end of its reservation"),
        ((NodeState.DRAIN,), "Kill task failed", Owner.SLURM, "by Slurm itself"),
        ((NodeState.DRAIN,), "holdfast:XID54: power", Owner.AGENT, "Needs a person"),
    ],
)
def test_the_owner_and_what_returns_the_node(
    states: tuple[NodeState, ...], reason: str, owner: Owner, back: str
) -> None:
    found = drain_status(node(*states, reason=reason))
    assert found.owner is owner
    assert back in found.undo
    assert found.out_of_service is (owner is not Owner.NOBODY)


def test_the_agents_record_confirms_the_drain_and_its_required_action() -> None:
    report = AgentReport(made=made(), at=AT.timestamp() + 60)
    found = drain_status(drained(), report)
    assert (found.owner, found.confirmed, found.required_action) == (
        Owner.AGENT,
        True,
        Action.RESET_GPU,
    )
    assert found.undo.startswith("Reset the GPU or reboot the node")


def test_a_persons_drain_with_holdfasts_text_is_the_persons() -> None:
    typed = drained("holdfast:XID79: my own words")
    for record in (None, made()):
        found = drain_status(typed, AgentReport(made=record, at=AT.timestamp() + 60))
        assert (found.owner, found.confirmed, found.fault) == (Owner.OTHER, False, None)
        assert "its agent has no record of this drain" in found.undo
    again = drain_status(
        drained(at=AT + timedelta(hours=1)), AgentReport(made=made(), at=AT.timestamp() + 7200)
    )
    assert again.owner is Owner.OTHER, "our own words, typed again later by somebody else"


def test_without_the_agents_report_nothing_is_confirmed() -> None:
    found = drain_status(drained())
    assert (found.owner, found.confirmed, found.required_action) == (
        Owner.AGENT,
        False,
        Action.RESET_GPU,
    )
    assert found.undo.startswith("If Holdfast drained it: Reset the GPU")


def test_an_old_report_or_one_of_a_dead_agent_denies_nothing() -> None:
    assert drain_status(drained(), AgentReport(made=None, at=AT.timestamp())).owner is Owner.AGENT
    late = AT.timestamp() + 60
    assert (
        drain_status(drained(), AgentReport(made=None, at=late, fresh=False)).owner is Owner.AGENT
    )
    assert drain_status(drained(), AgentReport(made=made(), at=late, fresh=False)).confirmed


@pytest.mark.parametrize(
    ("detail", "asked"),
    [
        ("Xid 79: fell off; Xid 154 (node reboot) requires reboot", Action.REBOOT),
        (
            "Xid 154: GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
            "reset-gpu",
        ),
        ("GPU 3 requires: NVML recovery action 1 (GPU reset)", Action.RESET_GPU),
        ("GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", None),
        ("the site requires patience", None),
        ("no such words", None),
    ],
)
def test_the_required_action_is_read_from_the_reason(detail: str, asked: str | None) -> None:
    assert required_action_in(Reason("XID154", detail)) == asked


def test_a_node_that_returned_too_often_needs_a_person() -> None:
    detail = "returned 4 times in 60 min, resume by hand: /mnt/training: gone"
    undo = drain_status(drained(str(Reason("MOUNT_GONE", detail, {"returns": "4"})))).undo
    assert "Needs a person: it returned 4 times before" in undo
    assert "scontrol update nodename=n1 state=resume" in undo


def test_a_node_that_returned_before_waits_longer() -> None:
    undo = drain_status(
        drained(str(Reason("MOUNT_GONE", "/mnt/training: gone", {"returns": "1"})))
    ).undo
    assert "later than usual, as it returned once before" in undo


def test_a_past_fault_shows_its_end_and_how_to_acknowledge_it() -> None:
    report = AgentReport(
        made=made(Action.WAIT), at=AT.timestamp() + 60, until=AT.timestamp() + 86400
    )
    undo = drain_status(drained(), report).undo
    assert f"{(AT + timedelta(days=1)).astimezone():%Y-%m-%d %H:%M}" in undo
    assert "To return it earlier: scontrol update nodename=n1 state=resume;" in undo

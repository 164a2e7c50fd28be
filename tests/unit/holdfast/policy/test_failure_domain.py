"""Failure domains: how many nodes of a leaf switch the agents take out, and what is one incident."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import pytest

from holdfast.policy.failure_domain import (
    Domain,
    domain_of,
    is_incident,
    refusal,
    room,
    withdrawals,
)
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.topology import Group
from holdfast.vocabulary import NodeState, SlurmName

_AT = datetime(2026, 1, 1, tzinfo=timezone.utc)
LEAF = Domain(name="leaf0", nodes=frozenset(f"w{i}" for i in range(8)))


@dataclass(frozen=True)
class Limits:
    domain_share: float = 0.5
    incident_share: float = 0.5


def table(
    drained: dict[int, str] | None = None, marked: dict[int, str] | None = None, size: int = 32
) -> list[SlurmNode]:
    """Nodes ``w0`` and so on: drained for these codes, or in service with a comment of an agent."""
    nodes = []
    for i in range(size):
        out, comment = (drained or {}).get(i, ""), (marked or {}).get(i, "")
        nodes.append(
            SlurmNode(
                name=SlurmName(f"w{i}"),
                states=frozenset({NodeState.DRAIN, NodeState.IDLE} if out else {NodeState.IDLE}),
                reason=f"holdfast:{out}: x" if out else "",
                reason_at=_AT + timedelta(seconds=i) if out else None,
                comment=f"holdfast:{comment}: over budget: x" if comment else "",
            )
        )
    return nodes


def why(me: int, code: str, rows: list[SlurmNode], limits: Limits | None = None) -> str:
    found = refusal(SlurmName(f"w{me}"), code, rows, LEAF, limits or Limits())
    return found.why if found else ""


def test_half_of_a_leaf_switch_may_be_out_of_service() -> None:
    three = dict.fromkeys(range(3), "XID79")
    assert why(7, "XID48", table(three)) == ""
    four = {**three, 3: "GPU_GONE"}
    spent = "4 of at most 4 nodes of topology=leaf0 are out of service by Holdfast"
    assert why(7, "XID48", table(four)) == spent
    assert why(3, "XID48", table(four)) == "", "it is out of service already"
    elsewhere = {i + 8: code for i, code in four.items()}
    assert why(7, "XID48", table(elsewhere)) == "", "nodes of other switches do not count"
    person = [
        SlurmNode(name=n.name, states=n.states, reason="mine", reason_at=n.reason_at)
        for n in table(four)
    ]
    assert why(7, "XID48", person) == "", "nor do a person's drains"


def test_one_node_always_may() -> None:
    limits = Limits(domain_share=0)
    assert why(7, "XID48", table(), limits) == ""
    assert "1 of at most 1 nodes of topology=leaf0" in why(7, "XID48", table({0: "XID79"}), limits)
    assert (room(0.1, 2), room(0.1, 30), room(1, 7)) == (1, 3, 7)


def test_the_same_fault_on_most_nodes_of_a_switch_is_one_incident() -> None:
    limits = Limits(domain_share=1)
    rows = table({0: "IB_DOWN", 1: "IB_DOWN"}, {2: "IB_DOWN", 3: "IB_DOWN"})
    assert why(7, "IB_DOWN", rows, limits) == (
        "5 of 8 nodes of topology=leaf0 have IB_DOWN: one incident (a switch, a filesystem, power?), no "
        "further node of it is drained"
    )
    assert why(7, "XID79", rows, limits) == "", "another fault is another cause"
    assert why(2, "IB_DOWN", rows, limits) == "", "four of eight, itself among them"


def test_the_same_fault_on_most_nodes_of_the_cluster_is_one_incident() -> None:
    limits = Limits(domain_share=1)
    rows = table({8: "MOUNT_HUNG"}, dict.fromkeys(range(9, 25), "MOUNT_HUNG"))
    assert "18 of 32 nodes of the cluster have MOUNT_HUNG: one incident" in why(
        0, "MOUNT_HUNG", rows, limits
    )
    assert refusal(SlurmName("w0"), "MOUNT_HUNG", rows, Domain(), limits) is not None
    assert refusal(SlurmName("w0"), "MOUNT_HUNG", rows[:24:2], Domain(), limits) is not None
    assert refusal(SlurmName("w0"), "MOUNT_HUNG", rows[:16], Domain(), limits) is not None
    assert refusal(SlurmName("w0"), "MOUNT_HUNG", rows[:14], Domain(), limits) is None


@pytest.mark.parametrize(
    ("count", "size", "expected"), [(2, 2, False), (2, 3, True), (2, 4, False), (3, 4, True)]
)
def test_what_an_incident_is(count: int, size: int, expected: bool) -> None:
    assert is_incident(count, size, 0.5) is expected


def test_those_that_were_drained_last_withdraw() -> None:
    rows = table(dict.fromkeys([6, 1, 3, 2, 5, 0, 12], "XID79"))
    assert withdrawals(rows, LEAF, Limits()) == ("w5", "w6")
    assert withdrawals(rows, Domain(), Limits()) == ()
    assert withdrawals(rows, LEAF, Limits(domain_share=1)) == ()


def test_the_domain_of_a_node() -> None:
    groups = [Group(name="a", nodes=("w1", "w2")), Group(name="b", nodes=("w3",))]
    assert domain_of(SlurmName("w3"), groups) == Domain(name="b", nodes=frozenset({"w3"}))
    assert domain_of(SlurmName("w4"), groups) == Domain()

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from holdfast.policy.node_death import in_slurm
from holdfast.policy.node_death.heartbeat import Death
from holdfast.reason import MAX_CHARS, Reason
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.settings.sections import BudgetConfig

NAME = SlurmName("worker-2")
DEATH = Death(
    name=NAME, silent_s=2.1, agreed=(SlurmName("worker-1"), SlurmName("worker-3")), run="0a1b2c"
)
OURS = in_slurm.reason_of(DEATH, "worker-1", "feed")
S = NodeState


def node(*states: NodeState, reason: str = "", name: str = NAME) -> SlurmNode:
    return SlurmNode(
        name=SlurmName(name),
        states=frozenset(states),
        reason=reason,
        reason_user="root" if reason else "",
        reason_at=datetime.now(timezone.utc) if reason else None,
    )


@pytest.mark.parametrize("base", [S.IDLE, S.ALLOCATED, S.MIXED])
def test_a_node_in_service_may_be_set_down(base: NodeState) -> None:
    assert in_slurm.kept(node(base)) == ""
    assert in_slurm.kept(node(base, S.NOT_RESPONDING)) == ""


@pytest.mark.parametrize(
    "states",
    [
        (S.IDLE, S.DRAIN),
        (S.DOWN,),
        (S.IDLE, S.FAIL),
        (S.IDLE, S.MAINTENANCE),
        (S.IDLE, S.REBOOT_ISSUED),
        (S.IDLE, S.POWERED_DOWN),
        (S.IDLE, S.POWERING_UP),
        (S.FUTURE,),
        (S.UNKNOWN,),
    ],
)
def test_what_others_set_stays(states: tuple[NodeState, ...]) -> None:
    assert in_slurm.kept(node(*states, reason="fan"))


def test_the_reason_is_readable_and_is_one_of_holdfast() -> None:
    parsed = Reason.parse(OURS)
    assert parsed is not None
    assert parsed.code == "NODE_DEATH"
    assert OURS.startswith(
        "holdfast:NODE_DEATH: no heartbeat and no answer to TCP for 2.1 s, say worker-1, worker-3"
    )
    long = Death(name=NAME, silent_s=2.1, agreed=(SlurmName("w" * 200),) * 4, run="r" * 16)
    assert len(in_slurm.reason_of(long, "w" * 63, "p" * 16)) <= MAX_CHARS


def _true(*of: str) -> bool:
    return of == ("0a1b2c", "worker-1", "feed")


def test_only_a_proven_down_is_ended() -> None:
    assert in_slurm.is_own(node(S.DOWN, reason=OURS), _true)
    assert in_slurm.is_own(node(S.DOWN, reason=f"{OURS} : Not responding"), _true)
    assert not in_slurm.is_own(node(S.DOWN, reason=OURS), lambda *_: False)
    assert not in_slurm.is_own(node(S.DOWN, S.DRAIN, reason=OURS), _true)  # a person added a drain
    assert not in_slurm.is_own(node(S.IDLE, reason=OURS), _true)
    assert not in_slurm.is_own(node(S.DOWN, reason="Not responding"), _true)
    assert not in_slurm.is_own(node(S.DOWN, reason="holdfast:XID79: x"), _true)


def test_dead_nodes_and_drains_share_one_budget() -> None:
    limits = BudgetConfig(max_nodes=2, max_share=0)
    table = [node(S.DOWN, reason=OURS, name="worker-7"), node(S.IDLE)]
    assert in_slurm.over_budget(NAME, table, limits) == ""
    table.append(node(S.IDLE, S.DRAIN, reason="holdfast:XID79: x", name="worker-8"))
    assert in_slurm.over_budget(NAME, table, limits).startswith("over budget: 2 of at most 2")
    returned = [node(S.IDLE, reason=OURS, name="worker-7"), *table[1:]]
    assert in_slurm.over_budget(NAME, returned, limits) == ""

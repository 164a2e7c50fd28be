"""The order of reads and writes. With real Slurm: tests/e2e/node/test_node_death.py."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import Refused, Unavailable
from holdfast.policy.budget import Count
from holdfast.policy.node_death.heartbeat import Death
from holdfast.policy.ownership import PastDrain, Undrained
from holdfast.slurm.client import RunningJob, SlurmJob, SlurmNode
from holdfast.slurm.parse.sdiag import NodeChanges
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.agent.node_death import step as steps
from slurm_hooks.agent.node_death.step import Returned, Step
from slurm_hooks.settings.settings import Settings

X, ME = SlurmName("worker-2"), SlurmName("worker-1")
DEATH = Death(name=X, silent_s=2.1, agreed=(ME, SlurmName("worker-3")), run="0a1b")
NOW = datetime(2026, 11, 22, 20, tzinfo=timezone.utc)


@dataclass
class Slurm:
    """One node and one job, in the memory of the test."""

    node: SlurmNode
    slow_s: float = 0.0
    job_states: list[str] = field(default_factory=lambda: ["PENDING"])
    start_at: datetime | None = NOW + timedelta(seconds=121)
    did: list[Any] = field(default_factory=list)
    meanwhile: SlurmNode | None = None
    """The node's state once its jobs have been asked for."""
    changes: int = 0
    others: int = 0
    """Changes of nodes by others while the node returns."""
    past: list[PastDrain] = field(default_factory=list)

    def nodes(self, _names: Sequence[SlurmName]) -> list[SlurmNode]:
        time.sleep(self.slow_s)
        return [self.node]

    def nodes_fast(self) -> list[SlurmNode]:
        return [self.node]

    def nodes_in_full(self, names: Sequence[SlurmName]) -> list[SlurmNode]:
        assert names
        return [self.node]

    def node_state(self, name: SlurmName) -> SlurmNode | None:
        assert name
        time.sleep(self.slow_s)
        return self.node

    def running_jobs(self, name: SlurmName) -> list[RunningJob]:
        self.node = self.meanwhile or self.node
        return [
            RunningJob(job_id=5, batch_host=name, start_at=NOW),
            RunningJob(job_id=6, batch_host="worker-9", start_at=NOW),
        ]

    def set_down(self, names: Sequence[SlurmName], reason: str) -> None:
        self.did.append(("down", *names))
        self.node = SlurmNode(name=X, states=frozenset({NodeState.DOWN}), reason=reason)

    def resume(self, names: Sequence[SlurmName]) -> None:
        self.did.append(("resume", *names))
        self.node = idle()
        self.changes += 1 + self.others

    def drain(self, names: Sequence[SlurmName], reason: str) -> None:
        self.did.append(("drain", *names, reason))

    def node_changes(self) -> NodeChanges:
        return NodeChanges(at=NOW, counted_since=0, changes=self.changes)

    def past_drains(self, name: SlurmName, since: datetime) -> list[PastDrain]:
        return [drain for drain in self.past if drain.start_at >= since]

    def clock(self) -> datetime:
        return NOW

    def job(self, job_id: int) -> SlurmJob | None:
        state = self.job_states.pop(0) if self.job_states else ""
        if state == "silent":
            raise Unavailable(["scontrol"], "no answer")
        return SlurmJob(
            job_id=job_id,
            name="j",
            user="alice",
            state=state,
            state_reason="BeginTime",
            restarts=1,
            requeue=True,
            start_at=self.start_at,
        )

    def start_now(self, job_id: int) -> None:
        self.did.append(("start", job_id))


def made(slurm: Slurm, *, act: bool = True, me: SlurmName = ME) -> Step:
    step = Step(me, Settings(path=Path("/nowhere/holdfast.yaml")), b"k" * 32, act=act)
    step._slurm = slurm  # type: ignore[assignment]
    return step


def idle(address: str = "127.0.0.2") -> SlurmNode:
    return SlurmNode(name=X, states=frozenset({NodeState.IDLE}), address=address)


def test_the_table_of_neighbours_also_says_how_many_nodes_are_out() -> None:
    """A later number of changes then proves that the budget has room, without the table."""
    out = SlurmNode(
        name=X,
        states=frozenset({NodeState.DRAIN}),
        reason="holdfast:XID79: GPU 3",
        address="127.0.0.2",
    )
    slurm = Slurm(out)
    slurm.changes = 12
    assert made(slurm).table().count == Count(total=1, out=1, by_users=0, changes=12, since=0)


def test_it_is_set_down_and_the_jobs_of_its_batch_host_are_known() -> None:
    slurm = Slurm(idle())
    outcome = made(slurm).set_down(DEATH, "127.0.0.2")
    assert slurm.did == [("down", X)]
    assert (outcome.written, outcome.jobs, outcome.why) == (True, (5,), "")


def test_in_mode_observe_nothing_is_written() -> None:
    slurm = Slurm(idle())
    outcome = made(slurm, act=False).set_down(DEATH, "127.0.0.2")
    assert slurm.did == []
    assert (outcome.written, outcome.why) == (False, "")
    assert "NODE_DEATH" in outcome.reason


def test_a_node_with_another_address_by_now_is_left_alone() -> None:
    slurm = Slurm(idle("127.0.0.9"))
    assert "its address is 127.0.0.9" in made(slurm).set_down(DEATH, "127.0.0.2").why
    assert slurm.did == []


def test_a_drained_node_keeps_its_reason() -> None:
    slurm = Slurm(SlurmNode(name=X, states=frozenset({NodeState.DRAIN}), reason="fan"))
    assert "fan" in made(slurm).set_down(DEATH, "").why
    assert slurm.did == []


def test_a_node_that_is_drained_while_the_decision_is_checked_keeps_its_reason() -> None:
    drained = SlurmNode(
        name=X,
        states=frozenset({NodeState.DRAIN}),
        reason="fan",
        reason_user="bob",
        address="127.0.0.2",
    )
    slurm = Slurm(idle(), meanwhile=drained)
    outcome = made(slurm).set_down(DEATH, "127.0.0.2")
    assert "by bob (fan)" in outcome.why
    assert slurm.did == []


def test_an_old_decision_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """slurmctld was frozen: the node may be back."""
    monkeypatch.setattr(steps, "_DECISION_S", 0.01)
    slurm = Slurm(idle(), slow_s=0.05)
    with pytest.raises(Refused, match="needed more than"):
        made(slurm).set_down(DEATH, "127.0.0.2")
    assert slurm.did == []


def test_the_node_itself_ends_what_agents_did_and_nothing_else() -> None:
    slurm = Slurm(idle())
    assert made(slurm, me=X).come_back() is None
    made(slurm).set_down(DEATH, "127.0.0.2")
    own = slurm.node.reason
    assert made(slurm, me=X).come_back() == Returned(reason=own, undrained=None)
    assert slurm.did == [("down", X), ("resume", X)]
    forged = own[:-1] + ("0" if own[-1] != "0" else "1")
    slurm.node = SlurmNode(name=X, states=frozenset({NodeState.DOWN}), reason=forged)
    assert made(slurm, me=X).come_back() is None
    assert slurm.did == [("down", X), ("resume", X)]


def returned(slurm: Slurm) -> Undrained:
    """A return beside which slurmctld changed another node, or this one."""
    made(slurm).set_down(DEATH, "127.0.0.2")
    slurm.others = 1
    back = made(slurm, me=X).come_back()
    assert back is not None
    assert back.undrained is not None
    return back.undrained


def test_a_persons_drain_right_before_the_return_is_set_again() -> None:
    slurm = Slurm(idle())
    undrained = returned(slurm)
    assert made(slurm, me=X).check_return(undrained) == "", "accounting is behind"
    slurm.past = [PastDrain(start_at=NOW, end_at=NOW, user="bob", reason="ticket 9")]
    assert "the drain of bob: ticket 9" in made(slurm, me=X).check_return(undrained)
    assert slurm.did[2:] == [("drain", X, "ticket 9")]


@pytest.mark.parametrize(
    "past",
    [
        PastDrain(start_at=NOW - timedelta(hours=1), end_at=NOW, user="bob", reason="earlier"),
        PastDrain(start_at=NOW, end_at=None, user="bob", reason="later, and still there"),
        PastDrain(start_at=NOW, end_at=NOW + timedelta(minutes=1), user="bob", reason="later"),
    ],
    ids=lambda past: past.reason,
)
def test_other_drains_are_not_set_again(past: PastDrain) -> None:
    slurm = Slurm(idle())
    undrained = returned(slurm)
    slurm.past = [past]
    assert made(slurm, me=X).check_return(undrained) == ""
    assert len(slurm.did) == 2


def test_who_drains_the_node_once_more_keeps_that_drain() -> None:
    slurm = Slurm(idle())
    undrained = returned(slurm)
    slurm.past = [PastDrain(start_at=NOW, end_at=NOW, user="bob", reason="ticket 9")]
    states = frozenset({NodeState.IDLE, NodeState.DRAIN})
    slurm.node = SlurmNode(name=X, states=states, reason="ticket 10", reason_user="bob")
    assert "by bob (ticket 10)" in made(slurm, me=X).check_return(undrained)
    assert len(slurm.did) == 2


def test_requeued_jobs_start_once_their_epilogs_have_ended() -> None:
    slurm = Slurm(idle(), job_states=["PENDING+COMPLETING", "silent", "PENDING", "RUNNING"])
    step = made(slurm)
    assert step.start((5,)) == ((5,), ())
    assert step.start((5,)) == ((5,), ())
    assert step.start((5,)) == ((), ("5: starts without Slurm's requeue delay",))
    assert step.start((5,)) == ((), ())
    assert slurm.did == [("start", 5)]


def test_a_start_time_that_a_person_set_stays() -> None:
    slurm = Slurm(idle(), start_at=NOW + timedelta(hours=2))
    assert made(slurm).start((5,)) == ((), ())
    assert slurm.did == []

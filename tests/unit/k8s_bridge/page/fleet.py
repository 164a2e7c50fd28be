"""A fleet for the tests of the status page: nodes in every state, and texts that users chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

from holdfast.errors import Unavailable
from holdfast.slurm.accounting import Failures, Restarts
from holdfast.slurm.client import QueuedJob, SlurmNode
from holdfast.slurm.topology import Group
from holdfast.vocabulary import KubeName, NodeState, SlurmName
from k8s_bridge.config import BridgeConfig
from k8s_bridge.endpoints.health import Health
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.names import KUBERNETES, SLURM
from k8s_bridge.page.board import Board
from k8s_bridge.page.sections import Sections, Shown
from k8s_bridge.page.sources import Sources
from k8s_bridge.planning.plan import plan

S = NodeState
NOON = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
HOSTILE = "<img src=x onerror=\"document.title='owned'\"> & 'x' \x1b[31m\u202e{{ 7 * 7 }}"
STATES: Mapping[int, dict[str, Any]] = {
    3: {"states": {S.IDLE, S.DRAIN}, "reason": "holdfast:XID79: GPU 3 fell off the bus gpu=3"},
    4: {"states": {S.ALLOCATED, S.DRAIN}, "reason": "holdfast:XID48: double bit ECC error gpu=1"},
    5: {"states": {S.DOWN, S.NOT_RESPONDING}, "reason": "Not responding"},
    6: {"states": {S.IDLE, S.DRAIN}, "reason": HOSTILE, "reason_user": "anna"},
    7: {"states": {S.IDLE, S.MAINTENANCE}},
    8: {"states": {S.IDLE, S.POWERED_DOWN}},
    9: {"states": {S.UNKNOWN}},
    10: {"states": {S.ALLOCATED}, "comment": "holdfast:XID63: row remap pending on GPU 2"},
    12: {"states": {S.IDLE}},
}
"""By the node's number; all others are busy. Node 11 is cordoned in Kubernetes only."""
LETTERS = "bbbFFDpmousci"
"""The letters of the first thirteen nodes."""


def node(i: int) -> SlurmNode:
    found = SlurmNode(
        name=SlurmName(f"worker-{i}"),
        states=frozenset({S.ALLOCATED}),
        instance_id=f"computeinstance-{i}",
        reason_user="root" if i in STATES and STATES[i].get("reason") else "",
        reason_at=NOON - timedelta(minutes=i) if i in STATES and STATES[i].get("reason") else None,
    )
    more = dict(STATES.get(i, {}))
    if "states" in more:
        more["states"] = frozenset(more["states"])
    return replace(found, **more)


class PageSlurm:
    """What the page asks Slurm for. ``silent``: nothing answers."""

    def __init__(self, nodes: int):
        self._nodes = nodes
        self.silent = False

    def _answer(self) -> None:
        if self.silent:
            raise Unavailable(["squeue"], "no answer in 10 s")

    def queue(self) -> list[QueuedJob]:
        self._answer()
        rows = [("4000", "RUNNING", "None", 2), ("4001", "PENDING", "JobHeldUser", 1)]
        rows += [("4002_7", "RUNNING", "None", 1), ("4003", "RUNNING", "None", 0)]
        return [
            QueuedJob(
                job=job, state=state, state_reason=why, restarts=again, user="li", name=HOSTILE
            )
            for job, state, why, again in rows
        ]

    def topology(self) -> list[Group]:
        self._answer()
        return [
            Group(
                name=f"leaf-{at // 32}",
                above=f"spine-{at // 512}",
                nodes=tuple(f"worker-{i}" for i in range(at, min(at + 32, self._nodes))),
            )
            for at in range(0, self._nodes, 32)
        ]

    def restarts(self, jobs: Sequence[str]) -> dict[str, Restarts]:
        self._answer()
        assert jobs == ["4000", "4001"], "an array's task has no number of its own"
        return {
            "4000": Restarts(runs=3, waited_s=372.0, ended_at=None, code="XID79"),
            "4001": Restarts(runs=2, waited_s=30.0, ended_at=1000.0),
        }

    def failures(self, since: datetime) -> dict[str, Failures]:
        self._answer()
        return {
            "worker-3": Failures(count=4, reason="holdfast:XID79: x", at=1.0),
            "worker-5": Failures(count=1, reason="Not responding", at=2.0),
        }


def no_history() -> Sequence[dict[str, Any]]:
    raise ValueError("no history is shared with the bridge (paths.history)")


class Limits:
    max_nodes, max_share, users_share = 4, 0.0, 0.5


class Fleet:
    """``count`` nodes, and the page's data over them."""

    def __init__(self, count: int):
        self.policy = BridgeConfig()
        self.nodes = [node(i) for i in range(count)]
        self.views = [
            KubeNode(name=KubeName(f"computeinstance-{i}"), uid=str(i), unschedulable=i == 11)
            for i in range(count)
        ]
        self.slurm = PageSlurm(count)
        self.board, self.health = Board(), Health(60)
        self.sources = Sources(self.slurm, no_history)
        self.sections = Sections(
            Shown(self.board, self.sources, self.health),
            self.policy,
            cluster=HOSTILE,
            limits=Limits(),
        )
        self.tell()

    def tell(self, now: datetime = NOON) -> None:
        """One pass of the loop."""
        changes = plan(self.nodes, self.views, self.policy, now)
        self.health.seen(SLURM)
        self.health.seen(KUBERNETES)
        self.board.seen(self.nodes, self.views, changes, now)

    def drain(self, i: int, reason: str) -> None:
        changed = replace(
            self.nodes[i],
            states=frozenset({S.IDLE, S.DRAIN}),
            reason=reason,
            reason_user="root",
            reason_at=NOON,
        )
        self.nodes = [*self.nodes[:i], changed, *self.nodes[i + 1 :]]

"""Which worker pods may be evicted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState as S
from holdfast.vocabulary import SlurmName
from k8s_bridge.worker_pods.evictable import changes, is_evictable
from tests.unit.k8s_bridge.fake_cluster import Clock, FakeSlurm


def node(*states: S, name: str = "worker-0") -> SlurmNode:
    slurm = FakeSlurm(Clock())
    slurm.add("worker-0", "node-0")
    return replace(slurm.nodes()[0], name=SlurmName(name), states=frozenset(states))


@pytest.mark.parametrize(
    ("states", "wanted"),
    [
        ((S.IDLE, S.DRAIN), True),
        ((S.DOWN, S.DRAIN), True),
        ((S.IDLE, S.DRAIN, S.MAINTENANCE), True),
        ((S.MIXED, S.DRAIN), False),
        ((S.ALLOCATED, S.DRAIN), False),
        ((S.IDLE, S.COMPLETING, S.DRAIN), False),
        ((S.UNKNOWN, S.DRAIN), False),
        ((S.IDLE,), False),
        ((S.DOWN,), False),
        ((S.ALLOCATED,), False),
        ((), False),
    ],
)
def test_a_pod_is_protected_unless_its_node_is_drained_and_free(
    states: tuple[S, ...], wanted: bool
) -> None:
    assert is_evictable(node(*states)) is wanted


def test_protection_comes_first_and_what_is_right_is_not_written() -> None:
    nodes = [
        node(S.IDLE, S.DRAIN, name="a"),
        node(S.IDLE, S.DRAIN, name="b"),
        node(S.ALLOCATED, name="c"),
    ]
    found = changes(nodes, {"b", "c", "unknown"})
    assert list(found.items()) == [("c", None), ("unknown", None), ("a", "true")]
    assert changes(nodes, {"a", "b"}) == {}

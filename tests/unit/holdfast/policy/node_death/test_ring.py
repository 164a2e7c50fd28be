from __future__ import annotations

from holdfast.policy.node_death.ring import EXCHANGE, WATCHED, neighbours, ring
from holdfast.vocabulary import SlurmName

NAMES = [SlurmName(f"worker-{number}") for number in range(12)]


def test_numbers_are_in_their_order_and_each_name_once() -> None:
    assert ring([*reversed(NAMES), NAMES[3]]) == tuple(NAMES)


def test_the_ring_is_closed() -> None:
    assert neighbours(NAMES, NAMES[0], 2) == (NAMES[10], NAMES[11], NAMES[1], NAMES[2])


def test_watching_is_mutual() -> None:
    for name in NAMES:
        for other in neighbours(NAMES, name, WATCHED):
            assert name in neighbours(NAMES, other, WATCHED)


def test_all_watchers_of_a_node_hear_each_other() -> None:
    for name in NAMES:
        watchers = neighbours(NAMES, name, WATCHED)
        for watcher in watchers:
            assert set(watchers) <= {*neighbours(NAMES, watcher, EXCHANGE), watcher}


def test_small_clusters_and_unknown_names() -> None:
    assert neighbours(NAMES[:3], NAMES[0], 2) == (NAMES[1], NAMES[2])
    assert neighbours(NAMES[:1], NAMES[0], 2) == ()
    assert neighbours(NAMES[:3], NAMES[9], 2) == ()

"""Others act beside two bridges, in any order. ``scripts/bench bridge-interleavings`` runs 100,000 histories."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from holdfast.vocabulary import KubeName, SlurmName
from k8s_bridge.config import BridgeConfig
from k8s_bridge.state_table import Isolation
from tests.unit.k8s_bridge import strangers
from tests.unit.k8s_bridge.fake_cluster import AGENT, BRIDGE, HUMAN
from tests.unit.k8s_bridge.strangers import GPU, OPERATOR, POLICIES, STEPS, Strangers

W, C = SlurmName("worker-0"), "computeinstance-0"


class FirstNode(random.Random):
    """Always the first node and the first bridge."""

    def random(self) -> float:
        return 0.0

    def randrange(self, *_: object, **__: object) -> int:
        return 0

    def choice(self, options):  # type: ignore[no-untyped-def]
        return options[0]


def world(policy: BridgeConfig = POLICIES[0], *, operator: bool = True) -> Strangers:
    return Strangers(policy, FirstNode(), operator=operator)


def play(made: Strangers, steps: str) -> None:
    for name in steps.split():
        made.settle() if name == "settle" else STEPS[name](made)
        made.check()


@pytest.mark.parametrize("seed", range(4))
def test_no_wrong_action_in_many_histories(seed: int) -> None:
    assert strangers.run_histories(seed, 400) > 400


def test_a_drain_and_a_cordon_that_follow_each_other_end() -> None:
    """slurm-operator drains for a cordon. Between the end of a fault's drain and the end of the bridge's
    cordon it drains for that one: each would wait for the other."""
    made = world()
    play(made, "agent_drains settle agent_returns operator_looks")
    assert made.slurm.drained_by[W] == OPERATOR
    assert made.kube.cordoned_by[C] == BRIDGE
    made.settle()
    assert W not in made.slurm.drained_by
    assert C not in made.kube.cordoned_by


def test_a_pod_that_ends_on_a_cordoned_machine_does_not_release_it() -> None:
    """slurm-operator's preStop replaces the reason; the machine is still faulty."""
    made = world()
    play(made, "agent_drains settle")
    made.slurm.set_drain(W, "slurm-operator: Pod is terminating", OPERATOR)
    made.peers[0].decide()
    made.peers[0].act()
    assert made.kube.cordoned_by[C] == BRIDGE


def test_others_drains_that_follow_a_cordon_are_not_followed_by_a_cordon() -> None:
    """A site isolates all drains: a mirror is never a source."""
    isolate = {"DRAIN": Isolation.CORDON}
    made = world(replace(POLICIES[0], isolate=isolate))
    play(made, "human_cordons operator_looks human_uncordons bridge_looks settle")
    assert W not in made.slurm.drained_by
    assert not made.kube.raw[C]["spec"].get("unschedulable")


def test_a_drain_stays_the_bridges_when_slurm_appends_to_it_and_its_causes_change() -> None:
    """The record was written again with Slurm's user and time, and the drain never ended."""
    made = world()
    play(
        made, "human_cordons settle slurm_loses_contact fault_is_shown settle fault_is_over settle"
    )
    assert made.slurm.drained_by[W] == BRIDGE
    play(made, "human_uncordons settle")
    assert W not in made.slurm.drained_by


def test_a_drain_to_which_slurm_appended_ends_when_its_worker_moves() -> None:
    """The pod of a cordoned machine goes, Slurm loses contact, and the worker starts on another machine."""
    made = world()
    play(made, "human_cordons settle slurm_loses_contact")
    assert made._node(W).reason_user == AGENT, "root: slurmctld's"
    play(made, "kube_moves_the_pod settle")
    assert W not in made.slurm.drained_by
    assert made.kube.raw[C]["spec"]["unschedulable"], "the person's cordon stays"
    assert made.kube.node(KubeName(C)).record is None


def test_also_if_the_node_was_deleted_meanwhile() -> None:
    made = world()
    play(made, "human_cordons settle kube_deletes_the_node bridge_looks slurm_loses_contact")
    play(made, "kube_replaces_the_machine settle")
    assert W not in made.slurm.drained_by


def test_after_a_restart_such_a_drain_is_left_to_a_person() -> None:
    """Nothing proves any more whose it is."""
    made = world()
    play(made, "human_cordons settle kube_deletes_the_node slurm_loses_contact")
    made.peers = [strangers.Peer(made.cluster) for _ in range(2)]
    play(made, "kube_replaces_the_machine")
    for _ in range(3):
        made.peers[0].decide()
        made.peers[0].act()
    assert made.slurm.drained_by[W] == BRIDGE


def test_a_record_of_a_worker_that_left_does_not_excuse_the_next_one() -> None:
    """The person who undrained the first worker in spite of the cordon did not speak of the second one."""
    made = world(operator=False)
    play(made, "human_cordons settle human_undrains settle")
    assert W not in made.slurm.drained_by
    other = SlurmName("worker-1")
    made._move(W, C, "computeinstance-2")
    made._move(other, "computeinstance-1", C)
    made.settle()
    assert W not in made.slurm.drained_by
    assert made.slurm.drained_by[other] == BRIDGE


@pytest.mark.parametrize("known", [True, False])
def test_a_worker_that_is_away_for_a_moment_keeps_what_a_person_decided(known: bool) -> None:
    """Slurm does not know it, or does not know yet on which machine it runs."""
    made = world(operator=False)
    play(made, "human_cordons settle human_undrains settle")
    node = made.slurm.by_name.pop(W)
    if known:
        made.slurm.by_name[W] = replace(node, instance_id="")
    made.peers[0].decide()
    made.peers[0].act()
    made.slurm.by_name[W] = node
    made.settle()
    assert W not in made.slurm.drained_by


def test_two_bridges_write_no_more_than_one() -> None:
    """Both decide on the same state; the second one finds that it has changed."""
    for steps in ("human_cordons", "agent_drains", "fault_is_shown", "quarantine_begins"):
        made = world()
        made.settle()
        play(made, steps)
        for peer in made.peers:
            peer.decide()
        first = made.peers[0].act()
        assert first > 0
        made.peers[1].act()
        assert made.slurm.drain_calls.count((W,)) <= 1
        assert made.settle() <= 4, steps


def test_a_persons_drain_in_the_text_of_another_program_stays() -> None:
    made = world()
    made.slurm.set_drain(W, "slurm-operator: Node (x) was cordoned", HUMAN)
    made.peers[0].decide()
    made.peers[0].act()
    assert made.slurm.drained_by[W] == HUMAN
    assert not made.kube.raw[C]["spec"].get("unschedulable")
    assert made.kube.node(KubeName(C)).foreign_status(GPU) == ""

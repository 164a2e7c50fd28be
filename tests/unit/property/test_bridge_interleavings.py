"""Any order of people's actions, faults, lost contact and killed bridges: no change of others is undone."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.reason import Reason
from holdfast.vocabulary import SlurmName
from k8s_bridge.config import BridgeConfig
from k8s_bridge.model.changes import Change
from k8s_bridge.model.ownership import Origin, cordon_reason, same_drain
from tests.unit.k8s_bridge.fake_cluster import AGENT, BRIDGE, HUMAN, FakeCluster

W, C = SlurmName("worker-0"), "computeinstance-0"


class Scenario:
    """What happens to one node. ``FakeCluster`` raises ``Violation`` where the bridge undoes a change of
    somebody else; the checks here compare what people want with the state.
    """

    def __init__(self, policy: BridgeConfig, *, tracked: bool):
        self.cluster = FakeCluster(1, policy, tracked=tracked)
        self.words: str | None = None
        self.human_cordon = False
        self.drains = 0
        self.uncordoned_in_drain = self.bridge_uncordoned_in_drain = 0
        self.untainted_in_drain = 0
        self.lifted = False
        self.decided: list[Change] = []

    # what people do

    def human_drains(self) -> None:
        self._drained_by_human("swapping DIMM")

    def human_drains_without_a_reason(self) -> None:
        self._drained_by_human("")

    def human_drains_with_the_bridges_text(self) -> None:
        """At another time: with the same text in the same second, and contact lost before the next pass,
        the two drains could not be distinguished.
        """
        self.cluster.wait(1)
        text = cordon_reason(self.cluster.clock.now)
        self.cluster.wait(1)
        self._drained_by_human(text)

    def human_undrains(self) -> None:
        record = self.cluster.view().record
        known = record is not None and record.origin is Origin.KUBERNETES
        if self.cluster.slurm.drained_by.get(W) == BRIDGE and known and self.human_cordon:
            self.lifted = True
        self.cluster.slurm.clear_drain(W)
        self.words = None

    def human_notes(self) -> None:
        if not self.cluster.node().drained_flag:
            self.cluster.slurm.note(W, "ask Anna first", HUMAN)

    def human_cordons(self) -> None:
        self.human_cordon |= not self.cluster.view().unschedulable
        self.cluster.kube.cordon(C, True)

    def human_uncordons(self) -> None:
        record = self.cluster.view().record
        mirrored = record is not None and same_drain(self.cluster.node(), record)
        if self.cluster.kube.cordoned_by.get(C) == BRIDGE and mirrored:
            self.bridge_uncordoned_in_drain = self.drains
        self.uncordoned_in_drain = self.drains
        self.human_cordon = self.lifted = False
        self.cluster.kube.cordon(C, False)

    def human_untaints(self) -> None:
        self.cluster.kube.untaint(C)
        self.untainted_in_drain = self.drains

    # what machines do

    def agent_drains(self) -> None:
        """Never over a person's reason, but over the bridge's."""
        if self.words is None and self.cluster.slurm.drained_by.get(W) != AGENT:
            self.cluster.wait(1)
            self.drains += 1
            self.lifted = False
            self.cluster.slurm.set_drain(W, str(Reason("XID79", "gpu 3", {"boot": "ab"})), AGENT)

    def agent_gives_back(self) -> None:
        if self.cluster.slurm.drained_by.get(W) == AGENT:
            self.cluster.slurm.clear_drain(W)

    def slurm_loses_contact(self) -> None:
        if self.cluster.node().drained_flag:
            self.cluster.slurm.lose(W)
            if self.words is not None:
                self.words = self.cluster.node().reason

    def time_passes(self) -> None:
        self.cluster.wait(90)

    # what the bridge does

    def bridge_looks(self) -> None:
        self.cluster.round()

    def bridge_decides(self) -> None:
        """The bridge is slow: anything may happen before it acts."""
        self.decided = self.cluster.plan()

    def bridge_acts_late(self) -> None:
        self.cluster.apply(self.decided)
        self.decided = []

    def bridge_dies_at_once(self) -> None:
        self.cluster.round_that_is_killed(0, before_last=True)

    def bridge_dies_after_a_write(self) -> None:
        self.cluster.round_that_is_killed(0, before_last=False)

    def bridge_dies_later(self) -> None:
        self.cluster.round_that_is_killed(2, before_last=False)

    def all_settles(self) -> None:
        self.cluster.settle()
        self._check_settled()

    # what must hold

    def check(self) -> None:
        node, raw = self.cluster.node(), self.cluster.kube.raw[C]
        if self.words is not None:
            assert node.drained_flag, "a person's drain was undone"
            assert node.reason == self.words
        if self.human_cordon:
            assert self.cluster.view().unschedulable, "a person's cordon was undone"
        if self.lifted:
            owner = self.cluster.slurm.drained_by.get(W)
            assert owner != BRIDGE, "drained again what a person undrained"
        assert raw["metadata"]["annotations"]["other/key"] == "theirs"
        assert {"key": "other/taint", "effect": "NoExecute"} in raw["spec"]["taints"]
        assert {"type": "Ready", "status": "True"} in raw["status"]["conditions"]

    def _drained_by_human(self, text: str) -> None:
        self.cluster.slurm.set_drain(W, text, HUMAN)
        self.words, self.lifted = text, False

    def _check_settled(self) -> None:
        node, view, policy = self.cluster.node(), self.cluster.view(), self.cluster.policy
        owner = self.cluster.slurm.drained_by.get(W)
        cordoned_by = self.cluster.kube.cordoned_by.get(C)
        if owner is None:
            assert cordoned_by != BRIDGE, "our cordon is orphaned"
            assert view.taint is None, "our taint is orphaned"
            if policy.drain_on_cordon and cordoned_by and not node.reason:
                lifted = view.record is not None and view.record.origin is Origin.KUBERNETES
                assert lifted, "a cordon without its drain"
        if owner == BRIDGE and not node.reason.endswith("Not responding"):
            assert view.unschedulable, "our drain is orphaned"
        if owner == AGENT and not node.reason.endswith("Not responding"):
            # With Slurm's addition, a new drain with the same text looks like the previous one.
            self._check_isolated()
        assert len(view.conditions) == 3

    def _check_isolated(self) -> None:
        view, policy = self.cluster.view(), self.cluster.policy
        if policy.taint and self.untainted_in_drain != self.drains:
            assert view.taint == "XID79"
        if self.bridge_uncordoned_in_drain == self.drains:
            cordoned_by = self.cluster.kube.cordoned_by.get(C)
            assert cordoned_by != BRIDGE, "cordoned again what a person uncordoned"
        elif policy.cordon and self.uncordoned_in_drain != self.drains:
            assert view.unschedulable


STEPS: dict[str, Callable[[Scenario], None]] = {
    name: step
    for name, step in vars(Scenario).items()
    if name.startswith(("human_", "agent_", "slurm_", "time_", "bridge_", "all_"))
}
POLICIES = [
    BridgeConfig(cordon=cordon, taint=taint, drain_on_cordon=back)
    for cordon in (True, False)
    for taint in (True, False)
    for back in (True, False)
]


def run_steps(names: Sequence[str], policy: BridgeConfig, *, tracked: bool) -> None:
    scenario = Scenario(policy, tracked=tracked)
    for name in names:
        STEPS[name](scenario)
        scenario.check()
    scenario.all_settles()
    scenario.check()


@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=12), st.sampled_from(POLICIES))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_short_scenario_ends_consistent(names: list[str], policy: BridgeConfig) -> None:
    run_steps(names, policy, tracked=True)


@pytest.mark.parametrize("seed", range(2))
def test_no_wrong_action_in_many_long_scenarios(seed: int) -> None:
    chance = random.Random(seed)
    steps = sorted(STEPS)
    for _ in range(600):
        names = chance.choices(steps, k=chance.randint(3, 20))
        policy = POLICIES[0] if chance.random() < 0.7 else chance.choice(POLICIES)
        try:
            run_steps(names, policy, tracked=True)
        except Exception as error:
            raise AssertionError(f"{policy}: {' → '.join(names)}") from error


def test_without_a_field_manager_the_record_is_trusted() -> None:
    """An API server that recorded no managers (a Node made without any field): one person who
    uncordons and cordons again between two looks cannot be distinguished from the bridge's own cordon.
    """
    chance = random.Random(7)
    steps = sorted(set(STEPS) - {"human_uncordons"})
    for _ in range(300):
        run_steps(chance.choices(steps, k=12), POLICIES[0], tracked=False)


SCENARIOS = {
    "a fault goes through and comes back": "agent_drains all_settles agent_gives_back",
    "a cordon goes through and comes back": "human_cordons all_settles human_uncordons",
    "drained by a person while the bridge wants to give back": (
        "human_cordons all_settles human_uncordons bridge_decides human_drains bridge_acts_late"
    ),
    "drained by a person while the bridge wants to drain": (
        "human_cordons bridge_decides human_drains bridge_acts_late"
    ),
    "uncordoned while the bridge wants to drain": (
        "human_cordons bridge_decides human_uncordons bridge_acts_late"
    ),
    "cordoned while the bridge wants to cordon": (
        "agent_drains bridge_decides human_cordons bridge_acts_late agent_gives_back"
    ),
    "cordoned again while the bridge wants to uncordon": (
        "agent_drains all_settles agent_gives_back bridge_decides human_uncordons human_cordons "
        "bridge_acts_late"
    ),
    "a fault on top of a cordon": (
        "human_cordons all_settles agent_drains all_settles human_uncordons all_settles "
        "agent_gives_back"
    ),
    "a fault on top of a cordon, and the cordon outlives it": (
        "human_cordons all_settles agent_drains all_settles agent_gives_back all_settles "
        "human_uncordons"
    ),
    "undrained by a person while cordoned, then contact is lost": (
        "human_cordons all_settles human_undrains all_settles slurm_loses_contact all_settles"
    ),
    "a machine reboots while cordoned": (
        "human_cordons all_settles slurm_loses_contact time_passes all_settles human_uncordons"
    ),
    "the bridge dies between its drain and its record": (
        "human_cordons bridge_dies_after_a_write human_uncordons"
    ),
    "a person drains with our own words": (
        "human_cordons all_settles human_drains_with_the_bridges_text all_settles human_uncordons"
    ),
    "a person's note is kept": "human_notes human_cordons all_settles human_uncordons",
}


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_scenario(scenario: str) -> None:
    run_steps(scenario.split(), POLICIES[0], tracked=True)


def test_a_machine_that_rebooted_while_cordoned_returns() -> None:
    """When Slurm appends to the bridge's drain, user and time change; the record is the proof."""
    scenario = Scenario(BridgeConfig(), tracked=True)
    for step in ("human_cordons", "all_settles", "slurm_loses_contact", "all_settles"):
        STEPS[step](scenario)
    assert scenario.cluster.node().reason.endswith(" : Not responding")
    assert scenario.cluster.node().reason_user != BRIDGE
    STEPS["human_uncordons"](scenario)
    scenario.cluster.settle()
    assert not scenario.cluster.node().drained_flag

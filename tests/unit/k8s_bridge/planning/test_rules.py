"""Signals of Kubernetes that drain nodes in Slurm, by rules."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.config.load import load_section
from holdfast.drain_status import Owner, drain_status
from holdfast.errors import ConfigError
from holdfast.reason import Reason
from holdfast.vocabulary import NodeState as S
from k8s_bridge.config import BridgeConfig
from k8s_bridge.model.changes import DrainInSlurm, UndrainInSlurm
from k8s_bridge.names import CONDITIONS, DRAINED, RULES_LABEL
from k8s_bridge.rules.catalogue import BUILT_IN, MIRRORS
from k8s_bridge.rules.rule import RuleMode
from k8s_bridge.rules.settings import BridgeBudget, RuleSettings
from tests.unit.k8s_bridge.fake_cluster import AGENT, BRIDGE, HUMAN
from tests.unit.k8s_bridge.planning.fake_rule_cluster import GPU, W0, RuleCluster, draining

RACK = "topology.example.org/rack"


def test_every_built_in_rule_observes_and_looks_at_one_thing() -> None:
    for rule in BUILT_IN.values():
        assert rule.mode is RuleMode.OBSERVE
        assert rule.about
        assert not rule.condition.startswith(MIRRORS)
        looked_at = (rule.condition, rule.taint, rule.pod)
        assert sum(map(bool, looked_at)) == (rule.name != "node-gone")
    assert all(condition.startswith(MIRRORS) for condition in CONDITIONS)


def test_a_condition_that_holds_drains_and_its_end_undrains() -> None:
    cluster = RuleCluster(draining("nebius-gpu-error"))
    cluster.show(GPU, "False")
    cluster.settle(1)
    cluster.show(GPU, "True")
    cluster.passes(5)
    assert cluster.drained() == []
    cluster.passes(10)
    assert cluster.drained() == ["worker-0"]
    reason = Reason.parse(cluster.node().reason)
    assert reason is not None
    assert (reason.code, reason.pairs["rule"]) == ("KUBE_RULE", "nebius-gpu-error")
    assert not cluster.view().unschedulable, "a mirror isolates nothing"
    assert drain_status(cluster.node()).owner is Owner.BRIDGE
    assert "nebius-gpu-error" in drain_status(cluster.node()).undo
    cluster.show(GPU, "False")
    cluster.passes(290)
    assert cluster.drained() == ["worker-0"]
    cluster.passes(20)
    assert cluster.drained() == []
    assert cluster.view().record is None


def test_in_mode_observe_the_condition_says_what_would_follow() -> None:
    cluster = RuleCluster()
    cluster.show(GPU, "True", ago_s=60)
    cluster.settle()
    assert cluster.drained() == []
    shown = cluster.view().conditions[DRAINED]
    assert (shown.status, shown.reason) == ("False", "RuleObserved")
    assert (
        "rule nebius-gpu-error: NebiusGPUError is True since 2026-11-20T11:59:00Z" in shown.message
    )


@pytest.mark.parametrize(
    ("rule", "status", "matches"),
    [
        (draining("not-ready", hold_s=0), "Unknown", True),
        (draining("not-ready", hold_s=0), "False", True),
        (draining("not-ready", hold_s=0), "True", False),
        (draining("not-ready", hold_s=0), None, False),
        (draining("storage-ready", hold_s=0), "False", True),
        (RuleSettings(name="own", mode=RuleMode.DRAIN, condition="X", bad=("absent",)), None, True),
        (
            RuleSettings(name="own", mode=RuleMode.DRAIN, condition="X", bad=("absent",)),
            "True",
            False,
        ),
    ],
    ids=str,
)
def test_polarity_and_absence(rule: RuleSettings, status: str | None, matches: bool) -> None:
    cluster = RuleCluster(rule)
    cluster.show(rule.rule.condition, status)
    cluster.passes(10)
    assert bool(cluster.drained()) == matches


@pytest.mark.parametrize(
    ("taint", "key", "value", "matches"),
    [
        ("a.b/c", "a.b/c", "x", True),
        ("a.b/c=x", "a.b/c", "x", True),
        ("a.b/c=y", "a.b/c", "x", False),
        ("a.b/c", "a.b/cd", "x", False),
    ],
)
def test_a_taint_with_and_without_a_value(taint: str, key: str, value: str, matches: bool) -> None:
    cluster = RuleCluster(RuleSettings(name="own", mode=RuleMode.DRAIN, taint=taint))
    cluster.kube.raw["computeinstance-0"]["spec"]["taints"].append(
        {"key": key, "value": value, "effect": "NoSchedule"}
    )
    cluster.settle()
    assert bool(cluster.drained()) == matches


def test_the_opt_out_label_keeps_a_node_and_returns_one() -> None:
    cluster = RuleCluster(draining("nebius-gpu-error", clear_s=0))
    cluster.label(RULES_LABEL, "off")
    cluster.show(GPU, "True", ago_s=60)
    cluster.settle()
    assert cluster.drained() == []
    cluster.label(RULES_LABEL, "on")
    cluster.settle()
    assert cluster.drained() == ["worker-0"]
    cluster.label(RULES_LABEL, "off")
    cluster.passes(10)
    assert cluster.drained() == []


def test_a_restarted_bridge_knows_its_drain_and_the_time_of_the_condition() -> None:
    cluster = RuleCluster(draining("nebius-gpu-error"))
    cluster.show(GPU, "True", ago_s=9)
    cluster.restart()
    cluster.passes(5)
    assert cluster.drained() == ["worker-0"]
    cluster.restart()
    cluster.settle()
    cluster.show(GPU, "False", ago_s=301)
    cluster.restart()
    cluster.settle()
    assert cluster.drained() == []


def test_a_condition_that_flaps_each_second_isolates_nothing_and_is_one_line() -> None:
    cluster = RuleCluster(draining("nebius-gpu-error"))
    lines: list[str] = []
    for second in range(120):
        cluster.show(GPU, "True" if second % 2 else "False")
        cluster.wait(1)
        cluster.round()
        lines += cluster.signals.notices()
    assert cluster.slurm.drain_calls == []
    assert len(lines) == 1
    assert "rule nebius-gpu-error: NebiusGPUError of computeinstance-0 changed 10 times" in lines[0]
    assert "hold_s" in lines[0]


def test_a_drained_node_stays_drained_while_its_condition_flaps() -> None:
    cluster = RuleCluster(draining("nebius-gpu-error"))
    cluster.show(GPU, "True", ago_s=60)
    cluster.settle()
    for second in range(700):
        cluster.show(GPU, "True" if second % 2 else "False")
        cluster.wait(1)
        cluster.round()
    assert len(cluster.slurm.drain_calls) == 1
    assert cluster.drained() == ["worker-0"]


def test_a_person_undrains_in_spite_of_a_rule_and_a_new_cause_drains_again() -> None:
    cluster = RuleCluster(
        draining("nebius-gpu-error", clear_s=0), draining("npd-kernel-deadlock", hold_s=0)
    )
    cluster.show(GPU, "True", ago_s=60)
    cluster.settle()
    cluster.slurm.clear_drain(W0)
    cluster.settle()
    assert cluster.drained() == []
    assert cluster.view().conditions[DRAINED].reason == "RuleNotFollowed"
    cluster.show("KernelDeadlock", "True")
    cluster.settle()
    assert cluster.drained() == ["worker-0"]
    cluster.slurm.clear_drain(W0)
    cluster.show(GPU, "False")
    cluster.passes(10)
    assert cluster.drained() == []
    cluster.show(GPU, "True")
    cluster.passes(20)
    assert cluster.drained() == ["worker-0"], "it was true for the hold time again"


def test_a_cordon_and_a_rule_end_one_after_the_other() -> None:
    cluster = RuleCluster(draining("nebius-gpu-error", clear_s=0))
    cluster.kube.cordon("computeinstance-0", True)
    cluster.show(GPU, "True", ago_s=60)
    cluster.settle()
    cluster.kube.cordon("computeinstance-0", False)
    cluster.settle()
    assert cluster.drained() == ["worker-0"]
    cluster.show(GPU, "False")
    cluster.passes(10)
    assert cluster.drained() == []


def test_a_persons_drain_and_note_stand() -> None:
    for note in (False, True):
        cluster = RuleCluster(draining("nebius-gpu-error"))
        if note:
            cluster.slurm.note(W0, "ask Anna", HUMAN)
        else:
            cluster.slurm.set_drain(W0, "fan", HUMAN)
        cluster.show(GPU, "True", ago_s=60)
        cluster.settle()
        cluster.show(GPU, "False", ago_s=600)
        cluster.settle()
        assert cluster.node().reason == ("ask Anna" if note else "fan")
        assert cluster.node().drained_flag == (not note)


@pytest.mark.parametrize(
    "masked",
    [
        {"states": frozenset({S.IDLE, S.DRAIN, S.NOT_RESPONDING})},
        {"states": frozenset({S.DOWN, S.DRAIN})},
        {"states": frozenset({S.IDLE, S.DRAIN, S.REBOOT_REQUESTED})},
        {"comment": "holdfast:XID79: GPU 0 has fallen off the bus"},
    ],
    ids=("not responding", "down", "reboot", "faulty"),
)
def test_an_undrain_waits_until_nothing_else_keeps_the_node(masked: dict[str, Any]) -> None:
    cluster = RuleCluster(draining("nebius-gpu-error"))
    cluster.show(GPU, "True", ago_s=60)
    cluster.settle()
    before = cluster.node()
    cluster.slurm.by_name[W0] = replace(before, **masked)
    cluster.show(GPU, "False", ago_s=600)
    cluster.settle()
    assert cluster.node().drained_flag
    cluster.slurm.by_name[W0] = before
    cluster.settle()
    assert not cluster.node().drained_flag


def test_a_rule_that_matches_everything_drains_nothing_and_is_one_line() -> None:
    everything = RuleSettings(
        name="all", mode=RuleMode.DRAIN, condition="X", bad=("absent", "Unknown", "False")
    )
    cluster = RuleCluster(everything, nodes=20)
    lines: list[str] = []
    for _ in range(10):
        cluster.wait(60)
        cluster.round()
        lines += cluster.signals.notices()
    assert cluster.slurm.drain_calls == []
    assert len(lines) == 1
    assert "rules match 20 of 20 nodes" in lines[0]
    assert "bridge.budget.incident_share" in lines[0]
    assert cluster.view().conditions[DRAINED].reason == "RuleWithheld"


def test_the_budget_admits_the_oldest_and_opens_by_itself() -> None:
    cluster = RuleCluster(draining("nebius-gpu-error", clear_s=0), nodes=20)
    for i in range(5):
        cluster.show(GPU, "True", i, ago_s=100 - i)
    cluster.passes(30)
    assert cluster.drained() == ["worker-0", "worker-1"]
    assert "the budget is spent" in cluster.view(4).conditions[DRAINED].message
    cluster.show(GPU, "False", 0)
    cluster.passes(30)
    assert cluster.drained() == ["worker-1", "worker-2"]


def test_agents_drains_count_and_a_persons_do_not() -> None:
    cluster = RuleCluster(draining("nebius-gpu-error"), nodes=20)
    cluster.slurm.set_drain(cluster.node(7).name, "holdfast:XID79: x", AGENT)
    for i in (8, 9, 10):
        cluster.slurm.set_drain(cluster.node(i).name, "fan", HUMAN)
    for i in range(3):
        cluster.show(GPU, "True", i, ago_s=60)
    cluster.settle(3)
    assert [n for n in cluster.drained() if n in ("worker-0", "worker-1", "worker-2")] == [
        "worker-0"
    ]


def test_half_a_rack_is_one_incident_and_other_racks_are_handled() -> None:
    limits = BridgeBudget(max_nodes=10, max_share=0, domain_label=RACK)
    cluster = RuleCluster(draining("not-ready", hold_s=0), nodes=16, budget=limits)
    for i in range(16):
        cluster.label(RACK, f"r{i // 4}", i)
    for i in (4, 5, 6, 12):
        cluster.show("Ready", "Unknown", i, ago_s=5)
    lines: list[str] = []
    for _ in range(3):
        cluster.wait(2)
        cluster.round()
        lines += cluster.signals.notices()
    assert cluster.drained() == ["worker-12"]
    assert lines == [
        f"rules match 3 of 4 nodes of {RACK}=r1: one incident (a switch, a filesystem, power?); none of "
        "them is drained"
    ]
    cluster.show("Ready", "True", 4)
    cluster.show("Ready", "True", 5)
    cluster.passes(10)
    assert set(cluster.drained()) >= {"worker-12", "worker-6"}, "it opens by itself"


def test_a_deleted_node_is_drained_and_its_replacement_inherits_nothing() -> None:
    cluster = RuleCluster(draining("node-gone"), draining("nebius-gpu-error"))
    cluster.settle()
    raw = cluster.kube.raw.pop("computeinstance-0")
    cluster.passes(100)
    assert cluster.drained() == []
    cluster.passes(30)
    assert cluster.drained() == ["worker-0"]
    raw["metadata"] |= {"uid": "another", "annotations": {}}
    cluster.kube.raw["computeinstance-0"] = raw
    cluster.kube._touch("computeinstance-0")
    cluster.passes(10)
    assert cluster.drained() == []


def test_a_node_that_was_never_seen_is_not_gone() -> None:
    cluster = RuleCluster(draining("node-gone"))
    cluster.kube.raw.clear()
    cluster.passes(600, every=60)
    assert cluster.slurm.drain_calls == []


def test_the_last_moment_counts_before_a_write_to_slurm() -> None:
    cluster = RuleCluster(draining("nebius-gpu-error", clear_s=0))
    cluster.show(GPU, "True", ago_s=60)
    decided = cluster.plan()
    assert any(isinstance(change, DrainInSlurm) for change in decided)
    cluster.show(GPU, "False")
    cluster.apply(decided)
    assert cluster.slurm.drain_calls == []
    cluster.show(GPU, "True", ago_s=60)
    cluster.settle()
    cluster.show(GPU, "False")
    cluster.wait(1)
    decided = cluster.plan()
    assert any(isinstance(change, UndrainInSlurm) for change in decided)
    cluster.show(GPU, "True")
    cluster.apply(decided)
    assert cluster.drained() == ["worker-0"]


def test_one_write_for_each_rule() -> None:
    limits = BridgeBudget(max_nodes=40, max_share=0)
    cluster = RuleCluster(
        draining("nebius-gpu-error"), draining("out-of-service"), nodes=40, budget=limits
    )
    for i in range(10):
        cluster.show(GPU, "True", i, ago_s=60)
        cluster.kube.taint(
            f"computeinstance-{i + 10}", "node.kubernetes.io/out-of-service", on=True
        )
    cluster.settle()
    assert sorted(map(len, cluster.slurm.drain_calls)) == [10, 10]


def something_happens(cluster: RuleCluster, chance: random.Random) -> None:
    """A signal, a person, a restarted bridge, or one that is killed at a write."""
    i = chance.randrange(4)
    name, kube = cluster.node(i).name, f"computeinstance-{i}"

    def undrain() -> None:
        if cluster.slurm.drained_by.get(name):
            cluster.slurm.clear_drain(name)

    def killed() -> None:
        cluster.round_that_is_killed(chance.randrange(3), before_last=chance.random() < 0.5)

    steps = (
        lambda: cluster.show(GPU, chance.choice(["True", "False", "Unknown", None]), i),
        lambda: cluster.show(GPU, "True", i, ago_s=30),
        lambda: cluster.show("Ready", chance.choice(["True", "False", "Unknown"]), i),
        lambda: cluster.ends_pods(chance.sample(range(4), chance.randrange(3))),
        lambda: cluster.kube.cordon(kube, chance.random() < 0.5),
        lambda: cluster.slurm.set_drain(name, "fan", HUMAN),
        undrain,
        cluster.restart,
        killed,
    )
    chance.choice(steps)()
    cluster.wait(chance.randrange(8))


@pytest.mark.parametrize("seed", range(2))
def test_no_wrong_action_in_any_order_of_signals_people_and_restarts(seed: int) -> None:
    """``FakeSlurm`` raises ``Violation`` for an undrain of others and a reason overwritten."""
    chance = random.Random(seed)
    rules = (
        draining("nebius-gpu-error", hold_s=3, clear_s=6),
        draining("not-ready", hold_s=6),
        draining("worker-pod-disrupted", clear_s=5),
    )
    limits = BridgeBudget(max_share=0, incident_share=1)
    for _ in range(60):
        cluster = RuleCluster(*rules, nodes=4, budget=limits, worker_pods_namespace="slurm")
        for _ in range(25):
            something_happens(cluster, chance)
            persons = {n for n, by in cluster.slurm.drained_by.items() if by == HUMAN}
            cluster.round()
            assert persons <= set(cluster.drained()), "a person's drain was ended"
            by_rules = [n for n in cluster.slurm.by_name.values() if "KUBE_RULE" in n.reason]
            assert len(by_rules) <= 2, "beyond the budget"
        for i in range(4):
            cluster.show(GPU, "False", i, ago_s=3600)
            cluster.show("Ready", "True", i, ago_s=3600)
            cluster.kube.cordon(f"computeinstance-{i}", False)
        cluster.ends_pods([])
        cluster.passes(200, every=50)
        cluster.settle()
        assert BRIDGE not in cluster.slurm.drained_by.values(), "our drain is orphaned"


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 20), st.integers(0, 30))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_drain_needs_the_hold_time_and_an_undrain_the_clear_time(
    shown: list[bool], hold_s: int, clear_s: int
) -> None:
    cluster = RuleCluster(draining("nebius-gpu-error", hold_s=hold_s, clear_s=clear_s))
    before: bool | None = None
    at, drained = cluster.clock.now, False
    for bad in shown:
        if bad is not before:
            cluster.show(GPU, str(bad))
            at, before = cluster.clock.now, bad
        cluster.wait(2)
        cluster.round()
        cluster.round()
        stood = cluster.clock.now - at
        if bool(cluster.drained()) != drained:
            drained = not drained
            assert bad == drained
            assert stood >= timedelta(seconds=hold_s if drained else clear_s)


BAD = {
    "{use: nebius-gpu-eror}": ".use: must name a built-in rule, got 'nebius-gpu-eror'; did you mean "
    "'nebius-gpu-error'?",
    "{name: x}": ": the rule 'x' needs either condition or taint",
    "{mode: drain}": ": a rule needs either use (a built-in rule) or name (a new one)",
    "{name: x, condition: HoldfastSlurmDrained}": ".condition: must not be one that shows Slurm's own state, "
    "got 'HoldfastSlurmDrained'; a drain for it would never end",
    "{name: x, condition: HardwareIssuesSuspected}": ".condition: must not be one that shows Slurm's own "
    "state, got 'HardwareIssuesSuspected'; a drain for it would never end",
    "{name: x, taint: holdfast.dev/drained}": ".taint: must not be the bridge's own, got "
    "'holdfast.dev/drained'",
    "{name: x, condition: Y, bad: [absent, 'True', 'False', Unknown]}": ".bad: must leave a status with which "
    "a node stays in service, got ['absent', 'True', 'False', 'Unknown']; it would match every node",
    "{name: x, condition: Y, bad: []}": ".bad: must have a status, got none",
    "{name: x, condition: Y, bad: [Maybe]}": ".bad[0]: 'Maybe' is not one of True, False, Unknown, absent",
    "{use: not-ready, hold_s: -1}": ".hold_s: must be between 0 and 86400, got -1",
    "{name: X Y, condition: Z}": ".name: must consist of a-z, 0-9 and -, got 'X Y'",
    "{name: not-ready, condition: Z}": ".name: is that of a built-in rule; write use: not-ready",
    "{use: not-ready, condition: Z}": ".use: is for the built-in rule 'not-ready'; to change what it looks "
    "at, give a new rule a name",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_input_is_one_line_with_file_line_value_and_remedy(tmp_path: Path, text: str) -> None:
    file = tmp_path / "holdfast.yaml"
    file.write_text(f"bridge:\n  rules:\n    - {{use: node-gone}}\n    - {text}\n")
    with pytest.raises(ConfigError) as error:
        load_section(file, "bridge", BridgeConfig)
    assert str(error.value) == f"{file}:4: bridge.rules[1]{BAD[text]}"


def test_a_rule_given_twice_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.yaml"
    file.write_text("bridge: {rules: [{use: not-ready}, {use: not-ready, mode: drain}]}\n")
    with pytest.raises(ConfigError, match="name each rule once, got 'not-ready' twice"):
        load_section(file, "bridge", BridgeConfig)

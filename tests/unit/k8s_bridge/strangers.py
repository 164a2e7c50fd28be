"""A cluster in which others act beside two bridges: persons, agents, slurm-operator, a program that cordons,
Kubernetes and slurmctld. Each public method ``PART_...`` is a step of a random history.

``FakeCluster`` raises ``Violation`` where a bridge undoes or overwrites what is not its own. The checks here
compare what people decided with the state, and the fixed point with the causes that are left.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from holdfast.reason import Reason, without_appended
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import KubeName, SlurmName
from k8s_bridge.config import BridgeConfig
from k8s_bridge.model.changes import Change
from k8s_bridge.model.ownership import CORDON, BridgeRecord, Origin, follows_cordon, same_drain
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.names import KEEP_CORDONED, RECORD
from k8s_bridge.planning.planner import Planner
from k8s_bridge.planning.signals import Signals
from k8s_bridge.rules.rule import RuleMode
from k8s_bridge.rules.settings import BridgeBudget, RuleSettings
from k8s_bridge.writes.apply import Applier
from tests.unit.k8s_bridge.fake_cluster import (
    AGENT,
    BRIDGE,
    HUMAN,
    FakeCluster,
    Killed,
    Violation,
)

OPERATOR, QUARANTINE = "slurm", "nvsentinel"
GPU, RULE = "NebiusGPUError", "nebius-gpu-error"
WORKERS = 2
ROUNDS, MOST_WRITES = 8, 14
"""A fixed point comes after at most so many rounds, with so many writes of the bridges for each node."""
Node = TypeVar("Node", SlurmNode, KubeNode)
_PREFIX = "slurm-operator: "
_RULES = (RuleSettings(use=RULE, mode=RuleMode.DRAIN, hold_s=0, clear_s=0),)
_BUDGET = BridgeBudget(max_nodes=1, max_share=0, incident_share=1)


def policies(**values: Any) -> list[BridgeConfig]:
    """The first one is the default."""
    return [
        BridgeConfig(
            cordon=cordon,
            taint=taint,
            drain_on_cordon=back,
            rules=_RULES,
            budget=_BUDGET,
            **values,
        )
        for cordon in (True, False)
        for taint in (True, False)
        for back in (True, False)
    ]


POLICIES = policies()


class Peer:
    """One bridge with all that it remembers between two passes."""

    def __init__(self, cluster: FakeCluster):
        self._cluster = cluster
        self._signals, self._planner = Signals(cluster.policy), Planner(cluster.policy)
        self._slurm: list[SlurmNode] = []
        self._kube: list[KubeNode] = []
        self.decided: list[Change] = []
        self.knows: dict[SlurmName, str] = {}
        """The reasons of the drained nodes that it has seen together with their Nodes."""

    def decide(self) -> None:
        self._slurm = _same(self._slurm, self._cluster.slurm.nodes())
        for node in self._slurm:
            if node.drained_flag and node.instance_id in self._cluster.kube.raw:
                self.knows[node.name] = without_appended(node.reason)
        self._kube = _same(self._kube, self._cluster.kube.list_nodes()[0])
        now = self._cluster.clock.now
        shown = self._signals.look(self._slurm, self._kube, now)
        self.decided = list(self._planner.plan(self._slurm, shown, now))

    def act(self) -> int:
        """The number of writes."""
        before = self._cluster.clock.writes
        changes, self.decided = self.decided, []
        actor = self._cluster.policy.slurm_user
        Applier(self._cluster.slurm, self._cluster.kube, actor).apply(changes)
        return self._cluster.clock.writes - before


class Strangers:
    """One history. ``chance`` chooses the node of each step. ``operator``: slurm-operator runs too."""

    def __init__(
        self,
        policy: BridgeConfig,
        chance: random.Random,
        *,
        operator: bool = True,
        cluster: FakeCluster | None = None,
    ):
        self.operator = operator
        self.cluster = cluster or FakeCluster(WORKERS, policy)
        self.slurm, self.kube = self.cluster.slurm, self.cluster.kube
        self.machines = WORKERS
        self._add_machine()
        self.peers = [Peer(self.cluster), Peer(self.cluster)]
        self.chance = chance
        self.words: dict[SlurmName, str] = {}
        self.cordons: set[str] = set()
        self.kept: set[str] = set()
        self.lifted: dict[SlurmName, tuple[str, set[str]]] = {}
        """Undrained by a person in spite of these causes on that machine."""
        self.touched: set[str] = set()
        self.drained_on: dict[SlurmName, str] = {}
        self.unproven: set[SlurmName] = set()

    # --- persons

    def human_drains(self) -> None:
        self._human_drains("swapping DIMM")

    def human_drains_without_a_reason(self) -> None:
        self._human_drains("")

    def human_undrains(self) -> None:
        worker, machine = self._pair()
        record = self._record(machine)
        if (
            self.slurm.drained_by.get(worker) == BRIDGE
            and record is not None
            and record.origin is Origin.KUBERNETES
            and same_drain(self._node(worker), record)
        ):
            self.lifted[worker] = machine, set(record.causes) & self._causes(machine)
        self.slurm.clear_drain(worker)
        self.words.pop(worker, None)

    def human_notes(self) -> None:
        worker, _ = self._pair()
        if not self._node(worker).drained_flag:
            self.slurm.note(worker, "ask Anna first", HUMAN)

    def human_cordons(self) -> None:
        _, machine = self._pair()
        if machine in self.kube.raw and not self.kube.raw[machine]["spec"].get("unschedulable"):
            self.kube.cordon(machine, True)
            self.cordons.add(machine)

    def human_keeps_the_cordon(self) -> None:
        """On a Node that the bridge has cordoned."""
        _, machine = self._pair()
        if self.kube.cordoned_by.get(machine) == BRIDGE:
            self.kube.annotate(machine, KEEP_CORDONED, "anna")
            self.kept.add(machine)

    def human_uncordons(self) -> None:
        _, machine = self._pair()
        if machine in self.kube.raw:
            self._uncordoned(machine)
            self.kube.annotate(machine, KEEP_CORDONED, None)
            self.kube.cordon(machine, False)

    def human_untaints(self) -> None:
        _, machine = self._pair()
        if machine in self.kube.raw:
            self.touched.add(machine)
            self.kube.untaint(machine)

    def human_removes_the_record(self) -> None:
        """Of an isolation: the field managers prove whose it is."""
        _, machine = self._pair()
        record = self._record(machine)
        if record is None or record.origin is not Origin.SLURM or not record.cordon:
            return
        if self.kube.cordoned_by.get(machine) == BRIDGE and machine not in self.kept:
            self.kube.annotate(machine, RECORD, None)
            self.touched.add(machine)

    # --- agents and machines

    def agent_drains(self) -> None:
        """Never over a person's reason or a stranger's, but over the bridge's."""
        worker, machine = self._pair()
        free = self.slurm.drained_by.get(worker) in (None, BRIDGE)
        if free and worker not in self.words and self._node(worker).reason != "ask Anna first":
            self.cluster.wait(1)
            self.slurm.set_drain(worker, str(Reason("XID79", "gpu 3", {"boot": "ab"})), AGENT)
            self.drained_on[worker] = machine
            self.touched.discard(machine)
            self.lifted.pop(worker, None)

    def agent_returns(self) -> None:
        worker, _ = self._pair()
        if self.slurm.drained_by.get(worker) == AGENT:
            self.slurm.clear_drain(worker)

    def slurm_loses_contact(self) -> None:
        worker, machine = self._pair()
        if self._node(worker).drained_flag:
            record = self._record(machine)
            if record is None or not same_drain(self._node(worker), record):
                self.unproven.add(worker)  # before the bridge has recorded its drain
            self.slurm.lose(worker)
            if worker in self.words:
                self.words[worker] = self._node(worker).reason

    def fault_is_shown(self) -> None:
        self._show("True")

    def fault_is_over(self) -> None:
        self._over(self._show("False"), RULE)

    def time_passes(self) -> None:
        self.cluster.wait(200)

    # --- Kubernetes

    def kube_moves_the_pod(self) -> None:
        """The worker starts again on another machine, which no worker has."""
        worker, machine = self._pair()
        used = {node.instance_id for node in self.slurm.by_name.values()}
        free = sorted(set(self.kube.raw) - used)
        if free:
            self._move(worker, machine, self.chance.choice(free))

    def kube_replaces_the_machine(self) -> None:
        worker, machine = self._pair()
        self._delete(machine)
        self._move(worker, machine, self._add_machine())

    def kube_deletes_the_node(self) -> None:
        """And another one takes its place later, with ``kube_replaces_the_machine``."""
        _, machine = self._pair()
        self._delete(machine)

    # --- strangers

    def operator_looks(self) -> None:
        worker, machine = self._pair()
        self._operator(worker, machine)

    def quarantine_begins(self) -> None:
        """A program cordons and taints the Node, as NVSentinel does."""
        _, machine = self._pair()
        if machine in self.kube.raw and not self.kube.raw[machine]["spec"].get("unschedulable"):
            self.kube.cordon(machine, True, QUARANTINE)
            self.cordons.add(machine)
            self.kube.taint(machine, "quarantine", on=True)

    def quarantine_ends(self) -> None:
        _, machine = self._pair()
        if self.kube.cordoned_by.get(machine) == QUARANTINE:
            self._uncordoned(machine)
            self.kube.cordon(machine, False)
            self.kube.taint(machine, "quarantine", on=False)

    # --- the bridges

    def bridge_looks(self) -> None:
        peer = self.chance.choice(self.peers)
        peer.decide()
        peer.act()

    def bridge_decides(self) -> None:
        """It is slow, or another one believes that it is the only one: anything may happen before it acts."""
        self.chance.choice(self.peers).decide()

    def bridge_acts_late(self) -> None:
        self.chance.choice(self.peers).act()

    def bridge_restarts(self) -> None:
        self._restart(self.chance.randrange(len(self.peers)))

    def bridge_is_killed_at_a_write(self) -> None:
        """At the first to the fourth write, right before or right after it."""
        i = self.chance.randrange(len(self.peers))
        clock = self.cluster.clock
        clock.writes_left, clock.killed_before_last = (
            self.chance.randrange(4),
            self.chance.random() < 0.5,
        )
        try:
            self.peers[i].decide()
            self.peers[i].act()
        except Killed:
            self._restart(i)
        finally:
            clock.writes_left = None

    # --- what must hold

    def check(self) -> None:
        """After each step."""
        for worker, words in self.words.items():
            node = self._node(worker)
            _require(node.drained_flag, f"{worker}: a person's drain was undone")
            _require(node.reason == words, f"{worker}: a person's reason became {node.reason!r}")
        for machine in self.cordons | self.kept:
            kept = self.kube.raw[machine]["spec"].get("unschedulable")
            _require(kept, f"{machine}: a cordon of others was undone")
        for worker, (_, causes) in self.lifted.items():
            reason = Reason.parse(self._node(worker).reason)
            if self.slurm.drained_by.get(worker) == BRIDGE and reason is not None:
                cause = reason.pairs.get("rule", CORDON)
                _require(cause not in causes, f"{worker}: drained again what a person undrained")
        for machine, raw in self.kube.raw.items():
            notes, taints = raw["metadata"]["annotations"], raw["spec"]["taints"]
            _require(notes["other/key"] == "theirs", f"{machine}: an annotation of others")
            other = {"key": "other/taint", "effect": "NoExecute"} in taints
            _require(other, f"{machine}: a taint of others")

    def settle(self) -> int:
        """Nothing happens any more but what bridges and slurm-operator do. The number of the bridges' writes."""
        for peer in self.peers:
            peer.decided = []
        writes = 0
        for _ in range(ROUNDS):
            self.cluster.wait(5)
            quiet = True
            for peer in self.peers:
                peer.decide()
                done = peer.act()
                quiet &= not done
                writes += done
                self.check()
            for worker, node in list(self.slurm.by_name.items()):
                quiet &= not self._operator(worker, node.instance_id)
            if quiet:
                break
        else:
            raise Violation(f"no fixed point after {ROUNDS} rounds: {self.peers[0].decided}")
        _require(
            writes <= MOST_WRITES * len(self.kube.raw), f"{writes} writes until the fixed point"
        )
        for worker, node in self.slurm.by_name.items():
            if node.instance_id in self.kube.raw:
                self._check_settled(worker, node.instance_id)
        return writes

    def _check_settled(self, worker: SlurmName, machine: str) -> None:
        node, view = self._node(worker), self.kube.node(KubeName(machine))
        policy, owner = self.cluster.policy, self.slurm.drained_by.get(worker)
        own_cordon = self.kube.cordoned_by.get(machine) == BRIDGE and machine not in self.kept
        if owner is None:
            _require(not own_cordon, f"{machine}: the bridge's cordon is orphaned")
            _require(view.taint is None, f"{machine}: the bridge's taint is orphaned")
            if policy.drain_on_cordon and self._cordoned_by_others(machine) and not node.reason:
                lifted = worker in self.lifted or CORDON in view.drained_for
                _require(lifted, f"{worker}: a cordon without its drain")
        if owner == OPERATOR and follows_cordon(node):
            _require(not own_cordon, f"{machine}: cordon and drain wait for each other")
        appended = node.reason.endswith("Not responding")
        if owner == BRIDGE and not (appended and worker in self.unproven):
            held = view.unschedulable or view.foreign_status(GPU) == "True"
            _require(held, f"{worker}: the bridge's drain is orphaned: {node.reason}")
        here = self.drained_on.get(worker) == machine and machine not in self.touched
        if owner == AGENT and here and not node.reason.endswith("Not responding"):
            _require(view.unschedulable or not policy.cordon, f"{machine}: faulty and not cordoned")
            _require(view.taint == "XID79" or not policy.taint, f"{machine}: faulty and no taint")

    # --- parts

    def _pair(self) -> tuple[SlurmName, str]:
        """Most often the first one: what several do to one node is of interest."""
        i = 0 if self.chance.random() < 0.8 else self.chance.randrange(WORKERS)
        node = self.slurm.by_name[SlurmName(f"worker-{i}")]
        return node.name, node.instance_id

    def _node(self, worker: SlurmName) -> SlurmNode:
        return self.slurm.by_name[worker]

    def _record(self, machine: str) -> BridgeRecord | None:
        return self.kube.node(KubeName(machine)).record if machine in self.kube.raw else None

    def _cordoned_by_others(self, machine: str) -> bool:
        by = self.kube.cordoned_by.get(machine)
        return by is not None and (by != BRIDGE or machine in self.kept)

    def _human_drains(self, text: str) -> None:
        worker, _ = self._pair()
        self.cluster.wait(1)
        self.slurm.set_drain(worker, text, HUMAN)
        self.words[worker] = text
        self.lifted.pop(worker, None)

    def _uncordoned(self, machine: str) -> None:
        self.touched.add(machine)
        self.cordons.discard(machine)
        self.kept.discard(machine)
        self._over(machine, CORDON)

    def _causes(self, machine: str) -> set[str]:
        cordon = {CORDON} if self._cordoned_by_others(machine) else set()
        shown = machine in self.kube.raw and self.kube.node(KubeName(machine)).foreign_status(GPU)
        return cordon | ({RULE} if shown == "True" else set())

    def _over(self, machine: str, cause: str) -> None:
        for at, causes in self.lifted.values():
            causes -= {cause} if at == machine else set()

    def _show(self, status: str) -> str:
        _, machine = self._pair()
        if machine in self.kube.raw:
            self.kube.show(machine, GPU, status)
        return machine

    def _add_machine(self) -> str:
        name = f"{self.cluster.machine}-{self.machines}"
        self.machines += 1
        self.kube.add(name)
        return name

    def _delete(self, machine: str) -> None:
        if machine in self.kube.raw:
            self._uncordoned(machine)
            self.kube.delete(machine)
            for node in self.slurm.by_name.values():
                if node.instance_id == machine:
                    self._forget(node)

    def _move(self, worker: SlurmName, machine: str, to: str) -> None:
        record = self._record(machine)
        if record is None or not same_drain(self._node(worker), record):
            self.drained_on.pop(worker, None)  # no bridge has seen yet where it was drained
        self.slurm.move(worker, to)
        self.lifted.pop(worker, None)

    def _restart(self, i: int) -> None:
        self.peers[i] = Peer(self.cluster)
        for node in self.slurm.by_name.values():
            if node.instance_id not in self.kube.raw:
                self._forget(node)

    def _forget(self, node: SlurmNode) -> None:
        """The Node with the record is gone. Does no bridge remember whose the drain is?"""
        text = without_appended(node.reason)
        if node.drained_flag and all(peer.knows.get(node.name) != text for peer in self.peers):
            self.unproven.add(node.name)

    def _operator(self, worker: SlurmName, machine: str) -> bool:
        """slurm-operator's ``syncCordon`` and ``syncPodUncordon`` (v1.3.0-rc1). Did it write?"""
        node = self._node(worker)
        if not self.operator:
            return False
        if machine not in self.kube.raw or (node.reason and not node.reason.startswith(_PREFIX)):
            return False
        if node.drained_flag and not node.reason:
            return False  # it would undrain that, a defect of its own
        cordoned = bool(self.kube.raw[machine]["spec"].get("unschedulable"))
        if not cordoned:
            if node.drained_flag:
                self.slurm.clear_drain(worker)
            return node.drained_flag
        if not node.drained_flag:
            self.slurm.set_drain(worker, f"{_PREFIX}Node ({machine}) was cordoned", OPERATOR)
            self.lifted.pop(worker, None)
        return not node.drained_flag


def _require(holds: object, what: str) -> None:
    if not holds:
        raise Violation(what)


def _same(old: list[Node], new: list[Node]) -> list[Node]:
    """As the real views do: an equal node is the same object."""
    known = {node.name: node for node in old}
    return [known[node.name] if known.get(node.name) == node else node for node in new]


STEPS: dict[str, Callable[[Strangers], None]] = {
    name: step
    for name, step in vars(Strangers).items()
    if name.partition("_")[0]
    in {"human", "agent", "slurm", "fault", "time", "kube", "operator", "quarantine", "bridge"}
}


def run_histories(seed: int, count: int, *, bridges: bool = True) -> int:
    """``count`` random histories of ``seed``. The number of steps. Without ``bridges``, nobody follows what
    happens, and nothing is checked. Raises ``Violation``."""
    steps = 0
    for history in range(count):
        chance = random.Random(f"{seed}/{history}")
        policy = POLICIES[0] if chance.random() < 0.7 else chance.choice(POLICIES)
        names = chance.choices(sorted(STEPS), k=chance.randint(3, 24))
        if not bridges:
            world = Strangers(policy, chance)  # nothing in it looks or writes
            for name in names:
                if not name.startswith("bridge_"):
                    STEPS[name](world)
            continue
        steps += len(names)
        run_steps(names, policy, chance)
    return steps


def run_steps(
    names: Sequence[str],
    policy: BridgeConfig,
    chance: random.Random,
    cluster: FakeCluster | None = None,
) -> None:
    """One history. Raises ``Violation`` with its steps."""
    world = Strangers(policy, chance, operator=chance.random() < 0.5, cluster=cluster)
    done = []
    try:
        for name in names:
            done.append(name)
            STEPS[name](world)
            world.check()
        done.append("settle")
        world.settle()
        if world.settle():
            raise Violation("a fixed point that writes")
    except Violation as error:
        values = f"cordon={policy.cordon} taint={policy.taint} back={policy.drain_on_cordon} operator={world.operator}"
        raise Violation(f"{error}: {values}: {' → '.join(done)}") from error

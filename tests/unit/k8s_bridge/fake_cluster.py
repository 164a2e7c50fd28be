"""A fake Slurm and a fake API server with the behaviour of the real ones. They record who wrote what, and
fail a test in which the bridge undoes a change of somebody else. The bridge can be killed at every write.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

from holdfast.errors import Refused
from holdfast.slurm.client import SlurmJob, SlurmNode
from holdfast.slurm.parse.sdiag import NodeChanges
from holdfast.vocabulary import KubeName, NodeState, SlurmName
from k8s_bridge.config import BridgeConfig
from k8s_bridge.kube import patches
from k8s_bridge.kube.api import (
    Edit,
    KubeConflict,
    KubeInvalid,
    KubeNotFound,
    KubeRefused,
    WatchEvent,
)
from k8s_bridge.model.changes import Change, NodeEvent
from k8s_bridge.model.snapshot import Condition, KubeNode, project
from k8s_bridge.names import FIELD_MANAGER, TAINT
from k8s_bridge.planning.planner import Planner
from k8s_bridge.writes.apply import Applier

NOON = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
HUMAN, AGENT, BRIDGE = "anna", "root", "holdfast"


class Killed(BaseException):
    """kill -9: nothing after this runs."""


class Violation(Exception):
    """The bridge undid or overwrote something that is not its own."""


class Clock:
    def __init__(self) -> None:
        self.now = NOON
        self.writes_left: int | None = None
        self.killed_before_last = False
        self.writes = 0

    def write(self, act: Callable[[], None]) -> None:
        """One write of the bridge. The bridge may be killed just before or just after it."""
        if self.writes_left is not None:
            self.writes_left -= 1
            if self.writes_left < 0:
                if not self.killed_before_last:
                    act()
                raise Killed
        self.writes += 1
        act()


class FakeSlurm:
    """slurmctld's behaviour: a drain overwrites any reason, UNDRAIN clears it."""

    def __init__(self, clock: Clock):
        self._clock = clock
        self.by_name: dict[SlurmName, SlurmNode] = {}
        self.drained_by: dict[SlurmName, str] = {}
        self.changes = 0
        """Requests to change a node, as slurmctld counts them."""
        self.drain_calls: list[tuple[SlurmName, ...]] = []

    def add(self, name: str, instance: str) -> None:
        node = SlurmNode(
            name=SlurmName(name), states=frozenset({NodeState.IDLE}), instance_id=instance
        )
        self.by_name[node.name] = node

    def nodes(self, names: Sequence[SlurmName] = ()) -> list[SlurmNode]:
        if unknown := set(names) - set(self.by_name):
            raise Refused(["scontrol"], f"Slurm knows no node {min(unknown)}")
        return [self.by_name[name] for name in names or sorted(self.by_name)]

    def nodes_fast(self) -> list[SlurmNode]:
        return [replace(node, instance_id="", boot_at=None) for node in self.nodes()]

    def node_changes(self) -> NodeChanges:
        return NodeChanges(self._clock.now, 0, self.changes)

    def set_drain(self, name: SlurmName, reason: str, user: str) -> None:
        self.changes += 1
        node = self.by_name[name]
        self.by_name[name] = replace(
            node,
            states=node.states | {NodeState.DRAIN},
            reason=reason,
            reason_user=user,
            reason_at=self._clock.now,
        )
        self.drained_by[name] = user

    def clear_drain(self, name: SlurmName) -> None:
        self.changes += 1
        node = self.by_name[name]
        self.by_name[name] = replace(
            node,
            states=node.states - {NodeState.DRAIN},
            reason="",
            reason_user="",
            reason_at=None,
        )
        self.drained_by.pop(name, None)

    def set_state(self, name: SlurmName, *words: str) -> None:
        """The states, without a change of the reason."""
        self.by_name[name] = replace(
            self.by_name[name], states=frozenset(NodeState[word] for word in words)
        )

    def note(self, name: SlurmName, text: str, user: str) -> None:
        """``scontrol update reason=…`` without a state."""
        node = self.by_name[name]
        self.by_name[name] = replace(node, reason=text, reason_user=user, reason_at=self._clock.now)

    def move(self, name: SlurmName, instance: str) -> None:
        """The worker starts on another machine."""
        self.by_name[name] = replace(self.by_name[name], instance_id=instance)

    def lose(self, name: SlurmName, words: str = "Not responding") -> None:
        """slurmctld appends to the reason, under its own user and with a new time."""
        node = self.by_name[name]
        text = f"{node.reason} : {words}" if node.reason else words
        if not node.reason.endswith(words):
            self.by_name[name] = replace(
                node, reason=text, reason_user="root", reason_at=self._clock.now
            )

    def drain(self, names: Sequence[SlurmName], reason: str) -> None:
        def act() -> None:
            self.drain_calls.append(tuple(names))
            for name in names:
                node = self.by_name[name]
                if node.drained_flag:
                    raise Violation(f"{name}: drained on top of {node.reason!r}")
                if node.reason not in ("", "Not responding"):
                    raise Violation(f"{name}: overwrote {node.reason!r}")
                self.set_drain(name, reason, BRIDGE)

        self._clock.write(act)

    def undrain(self, names: Sequence[SlurmName]) -> None:
        def act() -> None:
            for name in names:
                if self.drained_by.get(name) != BRIDGE:
                    raise Violation(f"{name}: undid the drain of {self.drained_by.get(name)}")
                self.clear_drain(name)

        self._clock.write(act)

    def clock(self) -> datetime:
        return self._clock.now

    def comment(self, names: Sequence[SlurmName], text: str) -> None:
        raise Violation("the bridge writes no comments")

    def job(self, job_id: int) -> SlurmJob | None:
        raise Violation("the bridge asks for no jobs")

    def requeue(self, job_id: int) -> None:
        raise Violation("the bridge requeues nothing")

    def hold(self, job_id: int, why: str) -> None:
        raise Violation("the bridge holds nothing")

    def disable_requeue(self, job_id: int) -> None:
        raise Violation("the bridge ends no requeue")

    def start_now(self, job_id: int, exclude: Sequence[SlurmName] | None = None) -> None:
        raise Violation("the bridge starts nothing")


class FakeKube:
    """An API server with raw Nodes that supports JSON Patch with ``test`` and records who cordoned."""

    def __init__(self, clock: Clock, *, tracked: bool = True):
        self._clock, self._tracked = clock, tracked
        self.raw: dict[str, dict[str, Any]] = {}
        self.events: dict[str, dict[str, Any]] = {}
        self.refuses_events = False
        self.denied: set[str] = set()
        """Nodes for which an admission policy denies every write of the bridge."""
        self.denial = "denied request: not these"
        self.asked: list[str] = []
        """The Nodes that the bridge tried to write, one entry for each attempt."""
        self.cordoned_by: dict[str, str] = {}
        self.tainted_by: dict[str, str] = {}
        self._lock = threading.RLock()
        self.before_patch: Callable[[], None] = lambda: None
        self._version = 0

    def add(self, name: str) -> None:
        self.raw[name] = {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "annotations": {"other/key": "theirs"},
            },
            "spec": {"taints": [{"key": "other/taint", "effect": "NoExecute"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
        self._touch(name)

    def cordon(self, name: str, on: bool, by: str = HUMAN) -> None:
        spec = self.raw[name]["spec"]
        if on and not spec.get("unschedulable"):
            spec["unschedulable"] = True
            self.cordoned_by[name] = by
        elif not on:
            spec.pop("unschedulable", None)
            self.cordoned_by.pop(name, None)
        self._touch(name)

    def taint(self, name: str, key: str, *, on: bool) -> None:
        taints = self.raw[name]["spec"].setdefault("taints", [])
        taints[:] = [taint for taint in taints if taint["key"] != key]
        taints += [{"key": key, "effect": "NoExecute"}] if on else []
        self.tainted_by[name] = "kubectl"
        self._touch(name)

    def retaint(self, name: str, value: str) -> None:
        """A person gives the bridge's taint another value."""
        taints = self.raw[name]["spec"]["taints"]
        next(taint for taint in taints if taint["key"] == TAINT)["value"] = value
        self.tainted_by[name] = "kubectl"
        self._touch(name)

    def annotate(self, name: str, key: str, value: str | None) -> None:
        _merge(self.raw[name], {"metadata": {"annotations": {key: value}}})
        self._touch(name)

    def untaint(self, name: str) -> None:
        self.taint(name, TAINT, on=False)

    def show(self, name: str, condition: str, status: str) -> None:
        """Another client writes that condition."""
        rows = self.raw[name]["status"]["conditions"]
        rows[:] = [row for row in rows if row["type"] != condition]
        at = f"{self._clock.now:%Y-%m-%dT%H:%M:%SZ}"
        rows.append({"type": condition, "status": status, "lastTransitionTime": at})
        self._touch(name)

    def delete(self, name: str) -> None:
        del self.raw[name]
        self.cordoned_by.pop(name, None)
        self.tainted_by.pop(name, None)

    def list_nodes(self) -> tuple[list[KubeNode], str]:
        return [self.node(KubeName(name)) for name in self.raw], str(self._version)

    def watch_nodes(self, version: str) -> Iterator[WatchEvent]:
        raise NotImplementedError("the plan is tested without a watch")

    def node(self, name: KubeName) -> KubeNode:
        if name not in self.raw:
            raise KubeNotFound(name)
        return project(self.raw[name])

    def edit(self, seen: KubeNode, decide: Callable[[KubeNode], Edit | None]) -> KubeNode:
        name = seen.name
        for _ in range(3):
            edit = decide(seen)
            patch = patches.edit_patch(seen, edit) if edit else {}
            if not patch:
                return seen
            self.before_patch()
            with self._lock:
                self._admit(name)
                try:
                    self._clock.write(lambda body=patch: self._patch(name, body))  # type: ignore[misc]
                except KubeConflict:
                    seen = self.node(name)
                    continue
                return self.node(name)
        raise KubeConflict(name)

    def _admit(self, name: str) -> None:
        if name not in self.raw:
            raise KubeNotFound(name)
        self.asked.append(name)
        if name in self.denied:
            raise KubeInvalid(f'PATCH: 422: nodes "{name}" is forbidden: {self.denial}')

    def patch_status(
        self, name: KubeName, conditions: Sequence[Condition], label: str | None
    ) -> KubeNode:
        with self._lock:
            self._admit(name)
            patch = patches.status_patch(conditions, label, self._clock.now)
            self._clock.write(lambda: self._patch_status(name, patch))
            return self.node(name)

    def _patch_status(self, name: str, patch: dict[str, Any]) -> None:
        rows = self.raw[name]["status"]["conditions"]
        for new in patch.get("status", {}).get("conditions", ()):
            rows[:] = [row for row in rows if row["type"] != new["type"]] + [new]
        labels = patch.get("metadata", {}).get("labels", {})
        self.raw[name]["metadata"].setdefault("labels", {}).update(labels)
        self._touch(name)

    def create_events(self, node: KubeNode | None, events: Iterable[NodeEvent]) -> None:
        for new in events:
            event = patches.event(node, new, "pod", self._clock.now)
            with self._lock:
                self._clock.write(lambda e=event: self._create(e))  # type: ignore[misc]

    def _create(self, event: dict[str, Any]) -> None:
        if self.refuses_events or len(event["note"].encode()) > 1024:
            raise KubeRefused("POST events: 422: can have at most 1024 characters")
        self.events.setdefault(event["metadata"]["name"], event)

    def _patch(self, name: str, patch: dict[str, Any]) -> None:
        document = copy.deepcopy(self.raw[name])
        if patch["metadata"]["resourceVersion"] != document["metadata"]["resourceVersion"]:
            raise KubeConflict(name)
        _merge(document, patch)
        was, is_now = (d["spec"].get("unschedulable") for d in (self.raw[name], document))
        if was and not is_now and self.cordoned_by[name] != BRIDGE:
            raise Violation(f"{name}: undid the cordon of {self.cordoned_by[name]}")
        if "taints" in patch.get("spec", {}):
            self.tainted_by[name] = FIELD_MANAGER
        if is_now and not was:
            self.cordoned_by[name] = BRIDGE
        if was and not is_now:
            del self.cordoned_by[name]
        self.raw[name] = document
        self._touch(name)

    def _touch(self, name: str) -> None:
        self._version += 1
        meta = self.raw[name]["metadata"]
        meta["resourceVersion"] = str(self._version)
        if self._tracked:
            by = self.cordoned_by.get(name)
            manager = FIELD_MANAGER if by == BRIDGE else "kubectl-cordon"
            fields: dict[str, Any] = {"f:spec": {"f:unschedulable": {}}} if by else {}
            taints: dict[str, Any] = {"f:spec": {"f:taints": {}}}
            meta["managedFields"] = [
                {"manager": manager, "fieldsV1": fields},
                {"manager": self.tainted_by.get(name, "kubectl"), "fieldsV1": taints},
            ]


def _merge(document: dict[str, Any], patch: dict[str, Any]) -> None:
    """RFC 7396."""
    for key, value in patch.items():
        if value is None:
            document.pop(key, None)
        elif isinstance(value, dict):
            _merge(document.setdefault(key, {}), value)
        else:
            document[key] = value


class FakeCluster:
    """Nodes ``worker-i`` on ``computeinstance-i``, and a stateless bridge."""

    machine = "computeinstance"

    def __init__(self, nodes: int = 1, policy: BridgeConfig | None = None, *, tracked: bool = True):
        self.policy = policy or BridgeConfig()
        self.clock = Clock()
        self.slurm, self.kube = FakeSlurm(self.clock), FakeKube(self.clock, tracked=tracked)
        for i in range(nodes):
            self.slurm.add(f"worker-{i}", f"computeinstance-{i}")
            self.kube.add(f"computeinstance-{i}")

    def plan(self) -> list[Change]:
        kube = self.kube.list_nodes()[0]
        return Planner(self.policy).plan(self.slurm.nodes(), kube, self.clock.now)

    def round(self) -> int:
        """One pass of a bridge that has just started. Returns the number of writes."""
        return self.apply(self.plan())

    def apply(self, changes: Sequence[Change]) -> int:
        """The number of writes."""
        before = self.clock.writes
        Applier(self.slurm, self.kube, self.policy.slurm_user).apply(changes)
        return self.clock.writes - before

    def settle(self, rounds: int = 2) -> None:
        """After ``rounds`` passes no change may be left."""
        for _ in range(rounds):
            self.wait(1)
            self.round()
        left = self.plan()
        if left:
            raise Violation(f"no fixed point after {rounds} rounds: {left}")

    def round_that_is_killed(self, after: int, *, before_last: bool) -> bool:
        """True when the bridge was killed at that write; False when it had fewer writes."""
        self.clock.writes_left, self.clock.killed_before_last = after, before_last
        try:
            self.round()
        except Killed:
            return True
        finally:
            self.clock.writes_left = None
        return False

    def wait(self, seconds: int) -> None:
        self.clock.now += timedelta(seconds=seconds)

    def node(self, i: int = 0) -> SlurmNode:
        return self.slurm.by_name[SlurmName(f"worker-{i}")]

    def view(self, i: int = 0) -> KubeNode:
        return self.kube.node(KubeName(f"computeinstance-{i}"))

"""The bridge's metrics. The only module that imports prometheus_client."""

from __future__ import annotations

import time
from collections import Counter as Count
from collections.abc import Iterable, Mapping
from functools import partial

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Info,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder

from holdfast.version import VERSION
from k8s_bridge.model.changes import CHANGES, Change
from k8s_bridge.names import KUBERNETES, SLURM
from k8s_bridge.workloads.kinds import KINDS, Kind

disable_created_metrics()  # type: ignore[no-untyped-call] # a second series for each counter


Sample = tuple[Mapping[str, str], float]


class BridgeMetrics:
    """The metrics of one bridge, in a registry of their own. All methods are thread-safe."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(namespace="holdfast_bridge", registry=self.registry)
        info = Info("holdfast_bridge", "The bridge's version.", registry=self.registry)
        info.info({"version": VERSION})
        self._passes = self._counter("passes", "Passes since the start.")
        self._failed_passes = self._counter(
            "failed_passes", "Passes since the start that an error ended."
        )
        self._planned = self._gauge("planned_changes", "Changes in the last plan.", "change")
        self._writes = self._counter("writes", "Changes written since the start.", "change")
        self._refusals = self._counter(
            "refusals", "Changes that Slurm or the API server rejected since the start.", "change"
        )
        self._conflicts = self._counter(
            "conflicts",
            "Changes that came too late since the start: the Node had changed or was gone.",
            "change",
        )
        self._nodes = self._gauge("nodes", "Nodes in the last snapshot.", "side")
        self._kill_switch_active = self._gauge(
            "kill_switch_active", "Whether a kill switch stops all actions of the bridge."
        )
        self._workload_restarts = self._counter(
            "workload_restarts",
            "Workloads of Kubernetes whose pods were restarted together since the start.",
            "kind",
        )
        self._reloads = self._counter(
            "reloads", "Changes of the configuration that were applied since the start."
        )
        self._invalid = self._gauge(
            "configuration_invalid",
            "Whether the configuration's file cannot be used, and the previous one is.",
        )
        age = self._gauge(
            "snapshot_age_seconds", "Time since the bridge last had the current state.", "side"
        )
        self._seen_at = dict.fromkeys((SLURM, KUBERNETES), time.monotonic())
        for side in self._seen_at:
            age.labels(side).set_function(partial(self._age_s, side))
        for kind in KINDS:
            self._workload_restarts.labels(kind.name)
        for name in CHANGES:  # a counter that is not there cannot be alerted on
            for family in (self._planned, self._writes, self._refusals, self._conflicts):
                family.labels(name)

    def passed(self, *, failed: bool) -> None:
        """A pass ended; ``failed``: with an error."""
        self._passes.inc()
        if failed:
            self._failed_passes.inc()

    def seen(self, side: str, nodes: int) -> None:
        """The current state of ``side`` (SLURM or KUBERNETES) is known and has this many nodes."""
        self._seen_at[side] = time.monotonic()
        self._nodes.labels(side).set(nodes)

    def planned(self, changes: Iterable[Change], *, kill_switch_active: bool) -> None:
        """The plan of this pass, without the changes that a kill switch stops."""
        counts = Count(type(change).__name__ for change in changes)
        for name in CHANGES:
            self._planned.labels(name).set(counts[name])
        self._kill_switch_active.set(kill_switch_active)

    def wrote(self, change: type[Change], count: int = 1) -> None:
        self._writes.labels(change.__name__).inc(count)

    def refused(self, change: type[Change]) -> None:
        self._refusals.labels(change.__name__).inc()

    def conflicted(self, change: type[Change]) -> None:
        self._conflicts.labels(change.__name__).inc()

    def workload_restarted(self, kind: Kind) -> None:
        """All pods of a workload of that kind are restarted."""
        self._workload_restarts.labels(kind.name).inc()

    def reloaded(self) -> None:
        """A change of the configuration was applied."""
        self._reloads.inc()

    def invalid(self, invalid: bool) -> None:
        """Whether the configuration's file cannot be used at the moment."""
        self._invalid.set(invalid)

    def exposition(self, accept: str = "") -> tuple[str, bytes]:
        """Content type and text, in the format that the client accepts."""
        encode, kind = choose_encoder(accept)
        text: bytes = encode(self.registry)
        return kind, text

    def families(self) -> Iterable[tuple[str, str, str]]:
        """Name, type (``counter``, ``gauge`` …) and meaning of each metric."""
        for family in self.registry.collect():
            yield family.name, family.type, family.documentation

    def samples(self, name: str) -> list[Sample]:
        """The labels and the value of each present sample of that metric."""
        found = (family for family in self.registry.collect() if family.name == name)
        return [(sample.labels, sample.value) for family in found for sample in family.samples]

    def _age_s(self, side: str) -> float:
        return time.monotonic() - self._seen_at[side]

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"holdfast_bridge_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"holdfast_bridge_{name}", text, labels, registry=self.registry)

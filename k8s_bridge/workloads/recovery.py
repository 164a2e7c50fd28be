"""Restarts workloads, in a thread beside the bridge's loop: no write to a Node waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from holdfast.adapters.log import Log
from holdfast.adapters.log_limit import LimitedLog
from holdfast.vocabulary import KubeName
from k8s_bridge.config import BridgeConfig
from k8s_bridge.feature import RepeatedStep
from k8s_bridge.kube.api import KubeConflict, KubeError, KubeFailed, KubeNotFound
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.workloads import patches
from k8s_bridge.workloads.decision import Continue, Look, Restart, Withheld, decide
from k8s_bridge.workloads.diagnosis import Diagnoses
from k8s_bridge.workloads.kinds import Kind
from k8s_bridge.workloads.node_faults import node_faults
from k8s_bridge.workloads.objects import Pod, Workload
from k8s_bridge.workloads.reader import Api, Found, Reader
from k8s_bridge.workloads.record import Past

log = LimitedLog(Log("bridge"))

MOST_IN_A_LOOK = 10
"""Workloads that are restarted in one look; the others in the next ones, namespaces in turn."""
MOST_KNOWN = 10_000


class Recovery:
    """The workloads of ``bridge.workloads.namespaces``. ``is_off``: a kill switch stops all actions.
    ``restarted``: called for each restart.
    """

    def __init__(
        self,
        api: Api,
        policy: BridgeConfig,
        is_off: Callable[[], bool] = lambda: False,
        restarted: Callable[[Kind], None] = lambda _: None,
    ):
        self._api, self._policy, self._settings = api, policy, policy.workloads
        self._is_off, self._restarted = is_off, restarted
        self._reader, self._diagnoses = Reader(api), Diagnoses()
        self._views: Sequence[KubeNode] | None = None
        self._known: dict[str, tuple[Past, ...]] = {}
        self._logged: dict[tuple[str, str], str] = {}
        self._thread = RepeatedStep(
            "workloads",
            lambda: self.step(time.time()),
            self._settings.poll_s,
            "workloads could not be looked at",
        )

    def see(self, _: object, kube: Sequence[KubeNode] | None, /) -> None:
        """The bridge's last look at the Nodes; ``None``: not known, so nothing is done."""
        self._views = kube

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._thread.stop()

    def step(self, now: float) -> int:
        """One look at all workloads. Returns the number of restarts that began. ``now``: epoch seconds."""
        views = self._views
        if views is None or self._is_off():
            return 0
        found = self._read()
        look = self._look(found, views, now)
        begun = 0
        for workload, pods in found:
            if self._thread.is_stopped:
                break
            decision = decide(workload, pods, look, self._known.get(workload.uid, ()))
            match decision:
                case Restart() if begun < MOST_IN_A_LOOK:
                    begun += self._restart(workload, decision)
                case Continue(pods=left):
                    log.info("restart continues", workload=workload, pods=len(left))
                    self._evict(workload, left)
                case Withheld():
                    self._withheld(workload, decision, now)
                case _:
                    pass
        return begun

    def _read(self) -> list[Found]:
        """All workloads, the first one of each namespace first. One namespace does not stop the others."""
        rows = []
        for namespace in self._settings.namespaces:
            try:
                found = self._reader.read(namespace)
            except KubeError as error:
                log.warning("workloads cannot be read", namespace=namespace, why=error)
                continue
            rows += [(number, one) for number, one in enumerate(found)]
        return [one for _, one in sorted(rows, key=lambda row: row[0])]

    def _look(self, found: Sequence[Found], views: Sequence[KubeNode], now: float) -> Look:
        by_name = {view.name: view for view in views if not view.gone}
        # A Node outside of the selector is none of the bridge's; one that is new may not be known yet.
        unknown = {pod.node for _, pods in found for pod in pods if pod.node} - by_name.keys()
        gone: frozenset[KubeName] = frozenset()
        if unknown and not self._policy.node_selector:
            gone = self._reader.gone(sorted(unknown))
        faults = node_faults(
            by_name,
            gone,
            not_ready_s=self._settings.not_ready_s,
            incident_share=self._policy.budget.incident_share,
            now=now,
        )
        self._diagnoses.begin()
        return Look(faults=faults, diagnose=self._diagnoses.of, settings=self._settings, now=now)

    def _restart(self, workload: Workload, decision: Restart) -> bool:
        record = decision.record
        path = workload.kind.path(workload.namespace, workload.name)
        try:
            self._api.request("PATCH", path, body=patches.record_patch(workload, record))
        except (KubeConflict, KubeNotFound):
            return False  # it changed meanwhile: the next look decides again
        except KubeError as error:
            log.error("workload cannot be restarted", workload=workload, why=error)
            return False
        if len(self._known) >= MOST_KNOWN:
            self._known.pop(next(iter(self._known)))
        self._known[workload.uid] = record.past
        log.warning(
            "workload restarts", workload=workload, pods=len(decision.pods), why=record.incident
        )
        self._restarted(workload.kind)
        most = self._settings.max_restarts
        note = (
            f"all {len(decision.pods)} pods are restarted together: {record.incident} "
            f"(restart {decision.count} of at most {most} within {self._settings.window_s:g} s)"
        )
        self._event(workload, "CascadingRestart", note, record.key, record.at)
        self._evict(workload, decision.pods)
        return True

    def _evict(self, workload: Workload, pods: Sequence[Pod]) -> None:
        with ThreadPoolExecutor(self._policy.connections, "evict") as pool:
            list(pool.map(partial(self._evict_one, workload), pods))

    def _evict_one(self, workload: Workload, pod: Pod) -> None:
        path = f"/api/v1/namespaces/{workload.namespace}/pods/{pod.name}/eviction"
        try:
            self._api.request("POST", path, body=patches.eviction(workload.namespace, pod))
        except (KubeNotFound, KubeConflict):
            pass  # it is gone, and another one may have its name
        except KubeFailed as error:  # 429: a PodDisruptionBudget
            log.warning(
                "pod cannot be evicted now; retrying", workload=workload, pod=pod.name, why=error
            )
        except KubeError as error:
            log.error("pod cannot be evicted", workload=workload, pod=pod.name, why=error)

    def _withheld(self, workload: Workload, decision: Withheld, now: float) -> None:
        """Say it once for each incident and cause."""
        key = (workload.uid, decision.key)
        if self._logged.get(key) == decision.why:
            return
        if len(self._logged) >= MOST_KNOWN:
            self._logged.clear()
        self._logged[key] = decision.why
        log.warning("workload is not restarted", workload=workload, why=decision.why)
        note = f"not restarted: {decision.why}"
        self._event(workload, "RestartWithheld", note, f"{decision.key} {decision.why}", now)

    def _event(self, workload: Workload, reason: str, note: str, key: str, at: float) -> None:
        if not self._policy.events:
            return
        path = f"/apis/events.k8s.io/v1/namespaces/{workload.namespace}/events"
        try:
            self._api.request("POST", path, body=patches.event(workload, reason, note, key, at))
        except KubeConflict:
            pass  # created by a bridge that was killed before it evicted
        except KubeError as error:
            log.error("Event rejected", workload=workload, why=error)

"""Workloads and their pods as the bridge sees them: only what it decides from. Pure.

Each text in a pod's status may come from its user.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.vocabulary import KubeName
from k8s_bridge.workloads.kinds import OPT_IN, OPT_IN_KCOVER, RESTART, Kind
from k8s_bridge.workloads.record import RestartRecord

Json = Mapping[str, Any]

MESSAGE_BYTES = 4096
"""The kubelet's limit for a termination message."""
_LOST_REASONS = frozenset({"DeletionByTaintManager", "DeletionByPodGC"})
"""Reasons of the condition DisruptionTarget: Kubernetes removes the pod because of its node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A container that ended. ``at``: epoch seconds, ``None``: unknown. ``restarted``: the kubelet has
    started it again.
    """

    container: str
    exit_code: int
    message: str = ""
    at: float | None = None
    restarted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod. ``node``: ``None`` before it is scheduled. ``owner``: the UID of its controller.
    ``created``: epoch seconds. ``lost``: Kubernetes removes it because of its node.
    ``ended``: its containers that failed.
    """

    name: str
    uid: str
    owner: str
    node: KubeName | None = None
    phase: str = "Running"
    created: float = 0.0
    terminating: bool = False
    lost: bool = False
    ended: tuple[Ended, ...] = ()

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def failed(self) -> bool:
        """It does not do its work any more, and did not succeed."""
        stopped = any(not each.restarted for each in self.ended)
        return self.phase == "Failed" or (
            self.phase != "Succeeded" and (self.terminating or stopped)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One workload that its owner opted in. ``active``: it is neither finished, suspended nor deleted.
    ``owner``: the UID of its controller, such as the JobSet of a Job; empty without one.
    """

    kind: Kind
    namespace: str
    name: str
    uid: str
    version: str
    active: bool = True
    owner: str = ""
    record: RestartRecord | None = None

    def __str__(self) -> str:
        return f"{self.namespace}/{self.kind.resource}/{self.name}"


def opted_in(labels: Json) -> bool:
    """Does the workload's owner want it? Holdfast's own label wins."""
    own = labels.get(OPT_IN)
    return own == "true" if own is not None else labels.get(OPT_IN_KCOVER) == "true"


def workload_of(kind: Kind, item: Json) -> Workload:
    """From the API's JSON."""
    meta, spec = item.get("metadata") or {}, item.get("spec") or {}
    conditions = (item.get("status") or {}).get("conditions") or ()
    finished = any(c.get("type") in kind.finished and c.get("status") == "True" for c in conditions)
    suspended = spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend")
    text = (meta.get("annotations") or {}).get(RESTART)
    return Workload(
        kind=kind,
        namespace=str(meta.get("namespace", "")),
        name=str(meta.get("name", "")),
        uid=str(meta.get("uid", "")),
        version=str(meta.get("resourceVersion", "")),
        active=not (finished or suspended or meta.get("deletionTimestamp")),
        owner=controller(item),
        record=RestartRecord.load(text) if text else None,
    )


def controller(item: Json) -> str:
    """The UID of the object that controls this one; empty without one."""
    owners = (item.get("metadata") or {}).get("ownerReferences") or ()
    return next((str(o.get("uid", "")) for o in owners if o.get("controller") is True), "")


def pod_of(item: Json) -> Pod:
    """From the API's JSON."""
    meta, status = item.get("metadata") or {}, item.get("status") or {}
    node = (item.get("spec") or {}).get("nodeName")
    rows = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return Pod(
        name=str(meta.get("name", "")),
        uid=str(meta.get("uid", "")),
        owner=controller(item),
        node=KubeName(str(node)) if node else None,
        phase=str(status.get("phase", "")),
        created=_epoch(meta.get("creationTimestamp")) or 0.0,
        terminating=bool(meta.get("deletionTimestamp")),
        lost=_lost(status.get("conditions") or ()),
        ended=tuple(each for row in rows for each in _ended(row)),
    )


def _lost(conditions: Iterable[Json]) -> bool:
    return any(
        c.get("type") == "DisruptionTarget"
        and c.get("status") == "True"
        and c.get("reason") in _LOST_REASONS
        for c in conditions
    )


def _ended(row: Json) -> Iterator[Ended]:
    """The container's present end, else the last one before it was started again."""
    for state, restarted in (("state", False), ("lastState", True)):
        found = (row.get(state) or {}).get("terminated")
        if found and found.get("exitCode"):
            yield Ended(
                container=str(row.get("name", "")),
                exit_code=int(found["exitCode"]),
                message=str(found.get("message") or "")[:MESSAGE_BYTES],
                at=_epoch(found.get("finishedAt")),
                restarted=restarted and (row.get("state") or {}).get("running") is not None,
            )
            return


def _epoch(text: object) -> float | None:
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None

"""JSON that goes to the API server: the record, evictions, Events. Pure."""

from __future__ import annotations

import hashlib
from datetime import datetime, timezone
from typing import Any

from k8s_bridge.names import REPORTER
from k8s_bridge.workloads.kinds import RESTART
from k8s_bridge.workloads.objects import Pod, Workload
from k8s_bridge.workloads.record import RestartRecord

Json = dict[str, Any]

NOTE_CHARS = 1000


def record_patch(workload: Workload, record: RestartRecord) -> Json:
    """A merge patch of exactly the version of the workload that was decided about."""
    notes = {RESTART: record.dump()}
    return {"metadata": {"resourceVersion": workload.version, "annotations": notes}}


def eviction(namespace: str, pod: Pod) -> Json:
    """Evicts that pod, and no later one of the same name."""
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }


def event(workload: Workload, reason: str, note: str, key: str, at: float) -> Json:
    """An events.k8s.io/v1 Event about the workload. Its name is a hash: equal ones are created once.
    ``at``: epoch seconds, with ``key`` the part that makes it another one.
    """
    words = "\0".join((workload.uid, reason, key))
    digest = hashlib.sha256(words.encode()).hexdigest()[:16]
    time = datetime.fromtimestamp(at, timezone.utc)
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{workload.name[:200]}.{digest}", "namespace": workload.namespace},
        "eventTime": f"{time:%Y-%m-%dT%H:%M:%S.%fZ}",
        "reportingController": REPORTER,
        "reportingInstance": "holdfast-bridge",
        "action": "Restart",
        "reason": reason,
        "note": note[:NOTE_CHARS],
        "type": "Warning",
        "regarding": {
            "apiVersion": workload.kind.api_version,
            "kind": workload.kind.name,
            "namespace": workload.namespace,
            "name": workload.name,
            "uid": workload.uid,
        },
    }

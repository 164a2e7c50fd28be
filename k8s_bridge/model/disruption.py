"""A worker pod that Kubernetes is going to end (the pod condition DisruptionTarget). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.text.printable import folded

CONDITION = "DisruptionTarget"
_DEFAULT_GRACE_S = 30
_MOST_CHARS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Disruption:
    """``reason``: who ends the pod, as Kubernetes names it. ``since``: when that was decided, ``until``: when
    its processes are killed; epoch seconds.
    """

    reason: str
    since: float
    until: float


def disruption_of(pod: Mapping[str, Any]) -> Disruption | None:
    """From the API's JSON; ``None``: nobody ends this pod.

    The API server sets a pod's ``deletionTimestamp`` to the end of its grace period. A pod that is not deleted
    yet has at least the grace period from now on.
    """
    meta, status = pod.get("metadata") or {}, pod.get("status") or {}
    for row in status.get("conditions") or ():
        if row.get("type") == CONDITION and row.get("status") == "True":
            since = _epoch(row.get("lastTransitionTime"))
            if since is None:
                return None
            grace = (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
            until = _epoch(meta.get("deletionTimestamp"))
            if until is None:
                until = since + (grace if isinstance(grace, int) else _DEFAULT_GRACE_S)
            reason = folded(str(row.get("reason") or "no reason"))[:_MOST_CHARS]
            return Disruption(reason=reason, since=since, until=until)
    return None


def _epoch(text: object) -> float | None:
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None

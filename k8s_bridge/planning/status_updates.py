"""Which conditions, label and Events of a Node are to be written. Pure."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from datetime import datetime, timezone

from k8s_bridge.model.changes import NodeEvent, UpdateStatus
from k8s_bridge.model.snapshot import Condition, KubeNode, condition_of
from k8s_bridge.names import DRAINED, READY, WHEN_TRUE


def status_update(
    view: KubeNode, wanted: tuple[Condition, ...], label: str, now: datetime
) -> Iterator[UpdateStatus]:
    """One change, or none where the Node shows all of it. ``now``: the time of new conditions."""
    changed = []
    events: list[NodeEvent] = []
    stamp = _stamp(now)
    for condition in wanted:
        old = view.conditions.get(condition.type)
        if condition.same_content(old):
            continue
        if old is None and condition.type in WHEN_TRUE and condition.status != "True":
            continue
        kept = old is not None and old.status == condition.status
        since = old.since if old and kept else stamp
        changed.append(
            condition_of(
                condition.type, condition.status, condition.reason, condition.message, since
            )
        )
        if not kept:
            events += _event_for(condition, old)
    if changed or view.label != label:
        yield UpdateStatus(
            kube=view,
            conditions=tuple(changed),
            label=label if view.label != label else None,
            events=tuple(events),
        )


@functools.lru_cache(maxsize=4)
def _stamp(now: datetime) -> str:
    return f"{now.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


# (condition, new status) → Event reason, and whether it is a warning. Busy changes with each job: no Event.
_EVENTS = {
    (DRAINED, "True"): ("SlurmDrained", True),
    (DRAINED, "False"): ("SlurmUndrained", False),
    (READY, "True"): ("SlurmReady", False),
    (READY, "False"): ("SlurmNotReady", True),
}


_SWITCHED = frozenset({"PoweredDown", "PoweringDown", "PoweringUp"})
"""Reasons of a node that Slurm's power saving has off or switches: no fault, so no Event."""


def _event_for(new: Condition, old: Condition | None) -> Iterator[NodeEvent]:
    """No Event for the first view of a node in service, nor for the status Unknown."""
    event = _EVENTS.get((new.type, new.status))
    if event is None:
        return
    reason, warning = event
    if not warning and (old is None or old.status == "Unknown"):
        return
    if new.reason in _SWITCHED:
        return
    yield NodeEvent(
        reason=reason, note=new.message, warning=warning, since=old.since if old else ""
    )

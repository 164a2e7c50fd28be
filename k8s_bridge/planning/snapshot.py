"""A Node as the bridge sees it: only the fields that it reads or writes, from the API's JSON.

A Node of a GPU machine is some 24 KB of JSON; ten thousand of them would be 1.5 GB as the client's models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.vocabulary import KubeName
from k8s_bridge.names import CONDITIONS, ORIGIN, RECORD, STATE_LABEL, is_own_taint
from k8s_bridge.planning.ownership import BridgeRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One of the bridge's Node conditions.

    ``since`` is when the status last changed, RFC 3339 as the API has it.
    """

    type: str
    status: str
    reason: str
    message: str
    since: str = ""

    def same_content(self, other: Condition | None) -> bool:
        """Equal except for the time."""
        return other is not None and (self.status, self.reason, self.message) == (
            other.status,
            other.reason,
            other.message,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeNode:
    """One Node.

    ``cordoned_by`` is the field manager that set ``spec.unschedulable``; empty when it is not set
    or the API server did not record it. ``taint`` is the value of the bridge's taint, ``None``
    without it. ``conditions`` are the bridge's, by type.
    """

    name: KubeName
    uid: str = ""
    version: str = ""
    unschedulable: bool = False
    cordoned_by: str = ""
    taint: str | None = None
    label: str | None = None
    record: BridgeRecord | None = None
    record_text: str | None = None
    origin: str | None = None
    conditions: Mapping[str, Condition] = field(default_factory=dict)

    @property
    def facts(self) -> tuple[object, ...]:
        """The fields that decisions depend on.

        Two views with equal facts lead to the same actions; heartbeats do not change them.
        """
        return (
            self.uid,
            self.unschedulable,
            self.cordoned_by,
            self.taint,
            self.record_text,
            self.origin,
        )


def project(node: Mapping[str, Any]) -> KubeNode:
    """The view of one Node object as decoded from JSON. Missing parts count as empty."""
    meta, spec = node.get("metadata") or {}, node.get("spec") or {}
    notes, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    unschedulable = spec.get("unschedulable") is True
    text = notes.get(RECORD)
    return KubeNode(
        name=KubeName(str(meta.get("name", ""))),
        uid=str(meta.get("uid", "")),
        version=str(meta.get("resourceVersion", "")),
        unschedulable=unschedulable,
        cordoned_by=_manager(meta.get("managedFields") or ()) if unschedulable else "",
        taint=next(
            (str(t.get("value", "")) for t in spec.get("taints") or () if is_own_taint(t)), None
        ),
        label=labels.get(STATE_LABEL),
        record=BridgeRecord.load(text) if text is not None else None,
        record_text=text,
        origin=notes.get(ORIGIN),
        conditions=_conditions((node.get("status") or {}).get("conditions") or ()),
    )


def _manager(entries: Any) -> str:
    """The manager of ``spec.unschedulable``, from ``metadata.managedFields``."""
    for entry in entries:
        spec = (entry.get("fieldsV1") or {}).get("f:spec") or {}
        if "f:unschedulable" in spec:
            return str(entry.get("manager", ""))
    return ""


def _conditions(raw: Any) -> dict[str, Condition]:
    return {
        c["type"]: Condition(
            type=c["type"],
            status=str(c.get("status", "")),
            reason=str(c.get("reason", "")),
            message=str(c.get("message", "")),
            since=str(c.get("lastTransitionTime") or ""),
        )
        for c in raw
        if c.get("type") in CONDITIONS
    }

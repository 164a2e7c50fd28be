"""JSON that goes to and comes from the API server: patches, Events, watch messages. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

from k8s_bridge.kube.api import Edit, KubeGone, KubeUnavailable, WatchEvent
from k8s_bridge.kube.decode import decode
from k8s_bridge.model.changes import NodeEvent
from k8s_bridge.model.snapshot import Condition, KubeNode, project
from k8s_bridge.names import ORIGIN, RECORD, REPORTER, STATE_LABEL, TAINT, TAINT_EFFECT

Json = dict[str, Any]


def edit_patch(seen: KubeNode, edit: Edit) -> Json:
    """The edit as a strategic merge patch of exactly this version of the Node; empty when there is nothing to
    write. It costs the API server a quarter less than a merge patch (RFC 7396) with the same text.

    Taints are a list without a merge key, so the patch has all of them: only with the version, which the
    server compares, the taints of other clients are kept.
    """
    spec = {**_cordon(seen, edit), **_taints(seen, edit)}
    notes = _annotations(seen, edit)
    if not spec and not notes:
        return {}
    meta: Json = {"resourceVersion": seen.version}
    if notes:
        meta["annotations"] = notes
    return {"metadata": meta, "spec": spec} if spec else {"metadata": meta}


def _cordon(seen: KubeNode, edit: Edit) -> Json:
    if edit.unschedulable is None or edit.unschedulable == seen.unschedulable:
        return {}
    return {"unschedulable": True if edit.unschedulable else None}


def _taints(seen: KubeNode, edit: Edit) -> Json:
    others: list[Json] = json.loads(seen.other_taints) if seen.other_taints else []
    if edit.untaint and seen.taint is not None:
        return {"taints": others or None}
    if edit.taint is not None and edit.taint != seen.taint:
        own = {"key": TAINT, "value": edit.taint, "effect": TAINT_EFFECT}
        return {"taints": [*others, own]}
    return {}


def _annotations(seen: KubeNode, edit: Edit) -> Json:
    now = {ORIGIN: seen.origin, RECORD: seen.record_text}
    if edit.record is not None:
        wanted = {ORIGIN: edit.record.origin.value, RECORD: edit.record.dump()}
        return {key: value for key, value in wanted.items() if now[key] != value}
    if edit.forget:
        return {key: None for key, value in now.items() if value is not None}
    return {}


def status_patch(conditions: Sequence[Condition], label: str | None, now: datetime) -> Json:
    """A strategic merge patch: the list's merge key is the type, so other conditions are unchanged."""
    beat = f"{now.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    rows = [
        {
            "type": c.type,
            "status": c.status,
            "reason": c.reason,
            "message": c.message,
            "lastTransitionTime": c.since,
            "lastHeartbeatTime": beat,
        }
        for c in conditions
    ]
    patch: Json = {"status": {"conditions": rows}} if rows else {}
    if label is not None:
        patch["metadata"] = {"labels": {STATE_LABEL: label}}
    return patch


def event(node: KubeNode | None, new: NodeEvent, instance: str, now: datetime) -> Json:
    """An events.k8s.io/v1 Event about a Node; with ``None`` about the namespace ``default``, where such
    Events are, as no object stands for the cluster.

    Its name is a hash of its content, so that the same Event is never created twice.
    """
    about = {"apiVersion": "v1", "kind": "Namespace", "name": "default"}
    if node is not None:
        about = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
    key = "\0".join((about.get("uid", ""), new.reason, new.note, new.since))
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{about['name'][:200]}.{hashlib.sha256(key.encode()).hexdigest()[:16]}",
            "namespace": "default",
        },
        "eventTime": f"{now.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%S.%fZ}",
        "reportingController": REPORTER,
        "reportingInstance": instance[:128] or "holdfast-bridge",
        "action": "Mirror",
        "reason": new.reason,
        "note": new.note,
        "type": "Warning" if new.warning else "Normal",
        "regarding": about,
    }


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a byte stream, as they become complete."""
    rest: list[bytes] = []
    for chunk in chunks:
        *full, tail = chunk.split(b"\n")
        for line in full:
            rest.append(line)
            whole = b"".join(rest)
            rest = []
            if whole.strip():
                yield whole
        if tail:
            rest.append(tail)


def watch_event(line: bytes) -> WatchEvent:
    """One event of a watch.

    Raises ``KubeGone`` for 410, ``KubeUnavailable`` for another ERROR or an invalid message.
    """
    return event_of(*watch_message(line, "nodes"))


def watch_message(line: bytes, what: str) -> tuple[str, Json]:
    """Type and object of one event of a watch of ``what``. Raises as ``watch_event``."""
    try:
        message = decode(line)
        kind, thing = message["type"], message["object"]
        thing.keys()
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise KubeUnavailable(f"watch of {what}: invalid message: {error}") from None
    _check(kind, thing, what)
    return kind, thing


def _check(kind: str, thing: Json, what: str) -> None:
    if kind == "ERROR":
        text = str(thing.get("message", ""))[:200]
        if thing.get("code") == 410 or thing.get("reason") in ("Expired", "Gone"):
            raise KubeGone(f"watch of {what}: {text}")
        raise KubeUnavailable(f"watch of {what}: {text}")


def event_of(kind: str, thing: Json) -> WatchEvent:
    """As ``watch_event``, from the event's type and its decoded object."""
    meta = thing.get("metadata") or {}
    _check(kind, thing, "nodes")
    version = str(meta.get("resourceVersion", ""))
    if kind == "BOOKMARK":
        return WatchEvent(node=None, gone=False, version=version)
    return WatchEvent(node=project(thing), gone=kind == "DELETED", version=version)

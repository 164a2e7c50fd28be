"""JSON that goes to and comes from the API server: patches, Events, watch messages. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from k8s_bridge.kube.api import Edit, KubeGone, KubeUnavailable, WatchEvent
from k8s_bridge.names import ORIGIN, RECORD, REPORTER, TAINT, TAINT_EFFECT, is_own_taint
from k8s_bridge.planning.plan import NodeEvent
from k8s_bridge.planning.snapshot import Condition, KubeNode, project

Json = dict[str, Any]


def edit_patch(raw: Mapping[str, Any], edit: Edit) -> list[Json]:
    """The edit as a JSON Patch (RFC 6902) of exactly this version of the Node; empty when there is nothing
    to write.

    Taints are a list without a merge key: only a patch that the server rejects (422) if the Node has
    changed keeps the taints of other clients.
    """
    spec, meta = raw.get("spec") or {}, raw.get("metadata") or {}
    patch = [
        *_cordon(spec, edit),
        *_taints(spec.get("taints"), edit),
        *_annotations(meta.get("annotations"), edit),
    ]
    return (
        [_op("test", "/metadata/resourceVersion", meta.get("resourceVersion")), *patch]
        if patch
        else []
    )


def _cordon(spec: Mapping[str, Any], edit: Edit) -> Iterator[Json]:
    now = spec.get("unschedulable") is True
    if edit.unschedulable is True and not now:
        yield _op("add", "/spec/unschedulable", value=True)
    elif edit.unschedulable is False and now:
        yield _op("remove", "/spec/unschedulable")


def _taints(taints: Sequence[Mapping[str, Any]] | None, edit: Edit) -> Iterator[Json]:
    index = next((i for i, taint in enumerate(taints or ()) if is_own_taint(taint)), None)
    if edit.untaint and index is not None:
        yield _op("remove", f"/spec/taints/{index}")
    elif edit.taint is not None:
        taint = {"key": TAINT, "value": edit.taint, "effect": TAINT_EFFECT}
        if index is not None:
            yield _op("replace", f"/spec/taints/{index}", taint)
        elif taints is None:
            yield _op("add", "/spec/taints", [taint])
        else:
            yield _op("add", "/spec/taints/-", taint)


def _annotations(notes: Mapping[str, str] | None, edit: Edit) -> Iterator[Json]:
    if edit.record is not None:
        wanted = {ORIGIN: edit.record.origin.value, RECORD: edit.record.dump()}
        if notes is None:
            yield _op("add", "/metadata/annotations", wanted)
        else:
            yield from (
                _op("add", _annotation(k), v) for k, v in wanted.items() if notes.get(k) != v
            )
    elif edit.forget:
        yield from (
            _op("remove", _annotation(key)) for key in (ORIGIN, RECORD) if key in (notes or {})
        )


def _annotation(key: str) -> str:
    return "/metadata/annotations/" + key.replace("~", "~0").replace("/", "~1")


def _op(op: str, path: str, value: object = None) -> Json:
    return {"op": op, "path": path} if op == "remove" else {"op": op, "path": path, "value": value}


def conditions_patch(conditions: Sequence[Condition], now: datetime) -> Json:
    """A strategic merge patch: the list's merge key is the type, so other conditions are unchanged."""
    beat = f"{now.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    return {
        "status": {
            "conditions": [
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
        }
    }


def event(node: KubeNode, new: NodeEvent, instance: str, now: datetime) -> Json:
    """An events.k8s.io/v1 Event.

    Its name is a hash of its content, so that the same Event is never created twice.
    """
    key = "\0".join((node.uid, new.reason, new.note, new.since))
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{node.name[:200]}.{hashlib.sha256(key.encode()).hexdigest()[:16]}",
            "namespace": "default",
        },
        "eventTime": f"{now.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%S.%fZ}",
        "reportingController": REPORTER,
        "reportingInstance": instance[:128] or "holdfast-bridge",
        "action": "Mirror",
        "reason": new.reason,
        "note": new.note,
        "type": "Warning" if new.warning else "Normal",
        "regarding": {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid},
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
    try:
        message = json.loads(line)
        kind, thing = message["type"], message["object"]
        meta = thing.get("metadata") or {}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise KubeUnavailable(f"watch of nodes: invalid message: {error}") from None
    if kind == "ERROR":
        text = str(thing.get("message", ""))[:200]
        if thing.get("code") == 410 or thing.get("reason") in ("Expired", "Gone"):
            raise KubeGone(f"watch of nodes: {text}")
        raise KubeUnavailable(f"watch of nodes: {text}")
    version = str(meta.get("resourceVersion", ""))
    if kind == "BOOKMARK":
        return WatchEvent(node=None, gone=False, version=version)
    return WatchEvent(node=project(thing), gone=kind == "DELETED", version=version)

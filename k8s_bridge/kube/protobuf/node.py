"""A Node. Pure."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from k8s_bridge.kube.protobuf.fields import (
    FIELD_1,
    FIELD_2,
    FIELD_3,
    FIELD_4,
    FIELD_5,
    FIELD_6,
    FIELD_7,
    UnknownForm,
    fields,
    next_field,
    some_fields,
)
from k8s_bridge.names import KEPT_LABELS, PREFIX, is_own_taint

Json = dict[str, Any]

_LABELS, _ANNOTATIONS, _MANAGED = 11 << 3 | 2, 12 << 3 | 2, 17 << 3 | 2
_NUMBER_1, _UNSCHEDULABLE = 1 << 3, 4 << 3
_LABEL_STARTS = tuple(prefix.encode() for prefix in KEPT_LABELS)
_NOTE_STARTS = (PREFIX.encode(),)

NAMES = {FIELD_1: "name", FIELD_5: "uid", FIELD_6: "resourceVersion"}
"""Fields of the metadata that tell one Node, and one version of it, from another."""
_PARTS = frozenset({FIELD_1, FIELD_2, FIELD_3})
_CONDITIONS = frozenset({FIELD_4})
_CONDITION = {
    FIELD_1: "type",
    FIELD_2: "status",
    FIELD_4: "lastTransitionTime",
    FIELD_5: "reason",
    FIELD_6: "message",
}
_CONDITION_TAGS = frozenset(_CONDITION)
_TAINT = {FIELD_1: "key", FIELD_2: "value", FIELD_3: "effect"}


def node(data: bytes, at: int, end: int) -> Json:
    """The Node between these bytes, as in JSON: ``metadata``, ``spec`` and ``status``."""
    parts = {tag: (begin, stop) for tag, begin, stop in some_fields(data, at, end, _PARTS)}
    spec = _spec(data, *parts.get(FIELD_2, (0, 0)))
    isolated = bool(spec) and ("unschedulable" in spec or any(map(is_own_taint, spec["taints"])))
    conditions = [
        _condition(data, begin, stop)
        for _, begin, stop in some_fields(data, *parts.get(FIELD_3, (0, 0)), _CONDITIONS)
    ]
    meta = _meta(data, *parts.get(FIELD_1, (0, 0)), managed=isolated)
    return {"metadata": meta, "spec": spec, "status": {"conditions": conditions}}


def _meta(data: bytes, at: int, end: int, *, managed: bool) -> Json:
    """``managed``: also who wrote the cordon and the taints."""
    labels: dict[str, str] = {}
    notes: dict[str, str] = {}
    managers: list[Json] = []
    meta: Json = {"labels": labels, "annotations": notes, "managedFields": managers}
    while at < end:
        # An entry of a map that does not begin as the wanted ones, all lengths below 128: nearly all.
        tag, size = data[at], data[at + 1]
        short = tag == _LABELS and size < 128 and data[at + 2] == FIELD_1 and data[at + 3] < 128
        if short and not data.startswith(_LABEL_STARTS, at + 4):
            at += size + 2
            continue
        tag, at, begin, stop = next_field(data, at)
        if tag == _LABELS:
            _entry(data, begin, stop, _LABEL_STARTS, labels)
        elif tag == _ANNOTATIONS:
            _entry(data, begin, stop, _NOTE_STARTS, notes)
        elif tag == _MANAGED:
            if managed:
                managers += _manager(data, begin, stop)
        elif tag in NAMES:
            meta[NAMES[tag]] = data[begin:stop].decode()
    if at != end:
        raise UnknownForm("a length beyond the end")
    return meta


def _entry(data: bytes, at: int, end: int, starts: tuple[bytes, ...], into: dict[str, str]) -> None:
    """One entry of a map, if its key has one of these beginnings."""
    row = {tag: data[begin:stop] for tag, begin, stop in fields(data, at, end)}
    key = row.get(FIELD_1, b"")
    if key.startswith(starts):
        into[key.decode()] = row.get(FIELD_2, b"").decode()


def _manager(data: bytes, at: int, end: int) -> Iterator[Json]:
    """The entry of a field manager, if it wrote the cordon or the taints."""
    name, written = "", b""
    for tag, begin, stop in fields(data, at, end):
        if tag == FIELD_1:
            name = data[begin:stop].decode()
        elif tag == FIELD_7:
            written = data[begin:stop]
    if b'"f:unschedulable"' not in written and b'"f:taints"' not in written:
        return
    for tag, begin, stop in fields(written, 0, len(written)):
        if tag == FIELD_1:
            yield {"manager": name, "fieldsV1": json.loads(written[begin:stop])}


def _spec(data: bytes, at: int, end: int) -> Json:
    """Empty for a Node with neither cordon nor taint."""
    spec: Json = {}
    taints = []
    for tag, begin, stop in fields(data, at, end):
        if tag == _UNSCHEDULABLE:
            if begin:
                spec["unschedulable"] = True
        elif tag == FIELD_5:
            taints.append(_taint(data[begin:stop]))
    if taints:
        spec["taints"] = [dict(taint) for taint in taints]
    return spec


@functools.lru_cache(maxsize=256)
def _taint(data: bytes) -> Json:
    """A whole taint: the list of taints is written as it was read, so nothing of it may be missing."""
    taint: Json = {}
    for tag, begin, stop in fields(data, 0, len(data)):
        if tag == FIELD_4:
            taint["timeAdded"] = _time(data[begin:stop])
        elif tag in _TAINT:
            if begin != stop or tag != FIELD_2:
                taint[_TAINT[tag]] = data[begin:stop].decode()
        else:
            raise UnknownForm(f"a taint with tag {tag}")
    return taint


def _condition(data: bytes, at: int, end: int) -> Json:
    return {
        _CONDITION[tag]: _time(data[begin:stop]) if tag == FIELD_4 else data[begin:stop].decode()
        for tag, begin, stop in some_fields(data, at, end, _CONDITION_TAGS)
    }


@functools.lru_cache(maxsize=4096)
def _time(data: bytes) -> str | None:
    """RFC 3339 in seconds, as JSON has it; ``None`` for the zero time."""
    for tag, seconds, _ in fields(data, 0, len(data)):
        if tag == _NUMBER_1:
            if seconds >> 63:
                return None  # before 1970: only Go's zero time
            return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    return None

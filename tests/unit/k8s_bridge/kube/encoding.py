"""Objects in the API server's protobuf encoding, as kube-apiserver 1.34 writes them: every field of the
message in the order of its number, empty texts too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

Json = Mapping[str, Any]


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def entries(number: int, rows: Json) -> bytes:
    """A map."""
    return b"".join(field(number, field(1, key) + field(2, rows[key])) for key in sorted(rows))


def time(text: str) -> bytes:
    if not text:
        return b""
    return field(1, int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp())) + field(
        2, 0
    )


def managers(rows: Iterable[Json]) -> bytes:
    return b"".join(
        field(
            17,
            field(1, row["manager"])
            + field(2, "Update")
            + field(3, "v1")
            + field(4, time("2026-01-01T00:00:00Z"))
            + field(6, "FieldsV1")
            + field(7, field(1, json.dumps(row["fieldsV1"], separators=(",", ":")))),
        )
        for row in rows
    )


def meta(values: Json) -> bytes:
    return (
        field(1, values["name"])
        + field(2, "")
        + field(3, "")
        + field(4, "")
        + field(5, values.get("uid", ""))
        + field(6, values.get("resourceVersion", ""))
        + field(7, 0)
        + field(8, time("2026-01-01T00:00:00Z"))
        + entries(11, values.get("labels") or {})
        + entries(12, values.get("annotations") or {})
        + managers(values.get("managedFields") or ())
    )


def taint(row: Json) -> bytes:
    added = row.get("timeAdded")
    return (
        field(1, row["key"])
        + field(2, row.get("value", ""))
        + field(3, row["effect"])
        + (field(4, time(added)) if added else b"")
    )


def spec(values: Json) -> bytes:
    return (
        field(1, "10.0.0.0/24")
        + field(2, "")
        + field(3, "nebius://computeinstance")
        + field(4, int(bool(values.get("unschedulable"))))
        + b"".join(field(5, taint(row)) for row in values.get("taints") or ())
    )


def condition(row: Json) -> bytes:
    return (
        field(1, row["type"])
        + field(2, row["status"])
        + field(3, time("2026-01-02T00:00:00Z"))
        + field(4, time(row.get("lastTransitionTime") or ""))
        + field(5, row.get("reason", ""))
        + field(6, row.get("message", ""))
    )


def status(values: Json) -> bytes:
    images = [
        b"".join(field(1, name) for name in row["names"]) + field(2, row["sizeBytes"])
        for row in values.get("images") or ()
    ]
    return (
        entries(1, {"cpu": field(1, "128"), "memory": field(1, "1Ti")})
        + b"".join(field(4, condition(row)) for row in values.get("conditions") or ())
        + b"".join(field(8, image) for image in images)
    )


def message(node: Json) -> bytes:
    """The message ``Node`` alone."""
    return (
        field(1, meta(node["metadata"]))
        + field(2, spec(node.get("spec") or {}))
        + field(3, status(node.get("status") or {}))
    )


def whole(kind: str, content: bytes) -> bytes:
    """An answer of the API server: the message in its envelope."""
    about = field(1, "v1") + field(2, kind)
    return b"k8s\x00" + field(1, about) + field(2, content) + field(3, "") + field(4, "")


def node_object(node: Json) -> bytes:
    return whole("Node", message(node))


def node_list(nodes: Iterable[Json], version: str) -> bytes:
    head = field(1, field(1, "") + field(2, version) + field(3, ""))
    return whole("NodeList", head + b"".join(field(2, message(node)) for node in nodes))


def failure(code: int, reason: str, text: str) -> bytes:
    return whole(
        "Status",
        field(1, field(1, "") + field(2, "") + field(3, ""))
        + field(2, "Failure")
        + field(3, text)
        + field(4, reason)
        + field(6, code),
    )


def watch_frame(kind: str, thing: bytes) -> bytes:
    data = field(1, kind) + field(2, field(1, thing))
    return len(data).to_bytes(4, "big") + data

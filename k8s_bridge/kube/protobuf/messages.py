"""An object as the API server sends it: a Node, or a Status with an error. Pure."""

from __future__ import annotations

from k8s_bridge.kube.protobuf.fields import (
    FIELD_1,
    FIELD_2,
    FIELD_3,
    FIELD_4,
    FIELD_5,
    FIELD_6,
    MAGIC,
    UnknownForm,
    fields,
    some_fields,
    text_field,
)
from k8s_bridge.kube.protobuf.node import NAMES, Json, node

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

_CODE = 6 << 3


def is_object(data: bytes) -> bool:
    """Is this an object in protobuf, not JSON?"""
    return data.startswith(MAGIC)


def decode(data: bytes) -> Json:
    """A Node (``metadata``, ``spec``, ``status``) or a Status (``message``, ``reason``, ``code``).

    Raises ``UnknownForm``.
    """
    try:
        kind, begin, end = _unknown(data)
        if kind == "Status":
            return {"kind": kind, **_status(data, begin, end)}
        if kind == "Node":
            return node(data, begin, end)
    except (IndexError, ValueError) as error:
        raise UnknownForm(f"no object in protobuf: {error}") from None
    raise UnknownForm(f"an object of kind {kind!r}")


def identity(data: bytes) -> tuple[str, str, str]:
    """Name, UID and resource version of a Node: enough to know whether it was decoded before.

    Raises ``UnknownForm``.
    """
    names = dict.fromkeys(NAMES, "")
    try:
        _, at, end = _unknown(data)
        for _, begin, stop in some_fields(data, at, end, frozenset({FIELD_1})):
            for inner, first, last in some_fields(data, begin, stop, frozenset(NAMES)):
                names[inner] = data[first:last].decode()
    except (IndexError, ValueError) as error:
        raise UnknownForm(f"no Node in protobuf: {error}") from None
    return names[FIELD_1], names[FIELD_5], names[FIELD_6]


def _unknown(data: bytes) -> tuple[str, int, int]:
    """The kind of the object, and where it begins and ends."""
    if not data.startswith(MAGIC):
        raise UnknownForm("another encoding")
    kind, where = "", (0, 0)
    for tag, begin, end in fields(data, len(MAGIC), len(data)):
        if tag == FIELD_1:
            kind = text_field(data, begin, end, FIELD_2)
        elif tag == FIELD_2:
            where = begin, end
    return kind, *where


def _status(data: bytes, at: int, end: int) -> Json:
    found: Json = {}
    for tag, begin, stop in fields(data, at, end):
        if tag == FIELD_3:
            found["message"] = data[begin:stop].decode()
        elif tag == FIELD_4:
            found["reason"] = data[begin:stop].decode()
        elif tag == _CODE:
            found["code"] = begin
    return found

"""The API server's protobuf encoding of Nodes, reduced to what the bridge reads. Pure.

A Node takes a third of the server's and the bridge's time in this encoding that it takes as JSON: what is
not read, such as the names of 50 images, is skipped by its length. The field numbers are those of
``generated.proto`` of k8s.io/api/core/v1 and k8s.io/apimachinery, which never change. The values have the
form that JSON has, so that both encodings lead to the same view of a Node.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from typing import Any

from k8s_bridge.names import KEPT_LABELS, PREFIX, is_own_taint

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
"""Each object begins with it, then a message ``runtime.Unknown``."""
MOST_BYTES = 64 << 20
"""A longer message than this is not read: the API server refuses objects of more than 2 MiB."""

Json = dict[str, Any]

# Tags: the field's number times 8, plus 2 for a value with a length and 0 for a number.
_1, _2, _3, _4, _5, _6, _7 = (number << 3 | 2 for number in range(1, 8))
_LABELS, _ANNOTATIONS, _MANAGED = 11 << 3 | 2, 12 << 3 | 2, 17 << 3 | 2
_NUMBER_1, _UNSCHEDULABLE, _CODE = 1 << 3, 4 << 3, 6 << 3
_LABEL_STARTS = tuple(prefix.encode() for prefix in KEPT_LABELS)
_NOTE_STARTS = (PREFIX.encode(),)


class UnknownForm(ValueError):
    """Bytes that are no message of the expected kind."""


class Incomplete(Exception):
    """The connection ended before the message did."""


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
            return _node(data, begin, end)
    except (IndexError, ValueError) as error:
        raise UnknownForm(f"no object in protobuf: {error}") from None
    raise UnknownForm(f"an object of kind {kind!r}")


def watch_events(chunks: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    """The type and the object of each event of a watch. Each message follows its length in four bytes.

    Raises ``UnknownForm``.
    """
    buffer = b""
    for chunk in chunks:
        buffer += chunk
        at = 0
        while len(buffer) - at >= 4:
            end = at + 4 + int.from_bytes(buffer[at : at + 4], "big")
            if end - at > MOST_BYTES:
                raise UnknownForm(f"an event of {end - at} bytes")
            if len(buffer) < end:
                break
            yield _event(buffer[at + 4 : end])
            at = end
        buffer = buffer[at:]


class NodeList:
    """A NodeList that is decoded while it arrives. ``version``: its resource version, once it was read."""

    def __init__(self, chunks: Iterable[bytes]):
        self._chunks = iter(chunks)
        self._buffer = b""
        self.version = ""

    def nodes(self) -> Iterator[Json]:
        """Each Node, as ``decode`` returns it. Raises ``UnknownForm`` and ``Incomplete``."""
        try:
            yield from self._nodes()
        except (IndexError, ValueError) as error:
            raise UnknownForm(f"no NodeList in protobuf: {error}") from None

    def _nodes(self) -> Iterator[Json]:
        at, left = self._begin()
        while left:
            while len(self._buffer) - at < min(
                left, 16
            ):  # a tag and a length have at most 15 bytes
                at = self._more(at)
            before = at
            tag, at = _varint(self._buffer, at)
            if tag & 7 != 2:
                raise UnknownForm(f"tag {tag} in a NodeList")
            size, at = _varint(self._buffer, at)
            left -= at - before + size
            if size > MOST_BYTES or left < 0:
                raise UnknownForm(f"an item of {size} bytes")
            while len(self._buffer) - at < size:
                at = self._more(at)
            if tag == _2:
                yield _node(self._buffer, at, at + size)
            elif tag == _1:
                self.version = _text_field(self._buffer, at, at + size, _2)
            at += size

    def _begin(self) -> tuple[int, int]:
        """Where the list begins in the buffer, and its length."""
        at = 0
        while True:
            try:
                return self._head()
            except IndexError:
                at = self._more(at)

    def _head(self) -> tuple[int, int]:
        data, at = self._buffer, len(MAGIC)
        if len(data) > at and not data.startswith(MAGIC):
            raise UnknownForm("another encoding")
        while True:
            tag, at = _varint(data, at)
            size, at = _varint(data, at)
            if tag == _2:
                return at, size
            if tag != _1:
                raise UnknownForm(f"tag {tag} before a list")
            data[at + size - 1]  # IndexError: more bytes are needed
            if (kind := _text_field(data, at, at + size, _2)) != "NodeList":
                raise UnknownForm(f"an object of kind {kind!r}")
            at += size

    def _more(self, at: int) -> int:
        """Read on, and drop what was read. Returns the new index of the byte at ``at``."""
        chunk = next(self._chunks, None)
        if chunk is None:
            raise Incomplete("the connection ended before the list")
        self._buffer = self._buffer[at:] + chunk
        return 0


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Tag, begin and end of each field that has a length; of a number: tag, the number, 0."""
    while at < end:
        tag, at, begin, stop = _next(data, at)
        if at > end:
            break
        yield tag, begin, stop
    if at != end:
        raise UnknownForm("a length beyond the end")


def _some(data: bytes, at: int, end: int, wanted: frozenset[int]) -> list[tuple[int, int, int]]:
    """As ``_fields``, only those with the tags ``wanted``. Most fields of a Node are passed here, without a
    call for each.
    """
    found = []
    while at < end:
        tag, size = data[at], data[at + 1]
        if tag < 128 and tag & 7 == 2 and (size < 128 or data[at + 2] < 128):
            begin = at + 2
            if size > 127:
                size += (data[begin] << 7) - 128
                begin += 1
            stop = at = begin + size
        else:
            tag, at, begin, stop = _next(data, at)
        if tag in wanted:
            found.append((tag, begin, stop))
    if at != end:
        raise UnknownForm("a length beyond the end")
    return found


def _next(data: bytes, at: int) -> tuple[int, int, int, int]:
    """The field at ``at``: its tag, where the next one begins, its begin and end (a number and 0)."""
    tag, at = _varint(data, at)
    kind = tag & 7
    if kind == 2:
        size, at = _varint(data, at)
        return tag, at + size, at, at + size
    if kind == 0:
        number, at = _varint(data, at)
        return tag, at, number, 0
    if kind in (1, 5):
        begin, at = at, at + (8 if kind == 1 else 4)
        return tag, at, begin, at
    raise UnknownForm(f"wire type {kind}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at ``at``, and the index after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise UnknownForm("a number of more than 64 bits")


def _text_field(data: bytes, at: int, end: int, wanted: int) -> str:
    """The field with that tag; empty where it is missing."""
    found = ""
    for tag, begin, stop in _fields(data, at, end):
        if tag == wanted:
            found = data[begin:stop].decode()
    return found


def _unknown(data: bytes) -> tuple[str, int, int]:
    """The kind of the object, and where it begins and ends."""
    if not data.startswith(MAGIC):
        raise UnknownForm("another encoding")
    kind, where = "", (0, 0)
    for tag, begin, end in _fields(data, len(MAGIC), len(data)):
        if tag == _1:
            kind = _text_field(data, begin, end, _2)
        elif tag == _2:
            where = begin, end
    return kind, *where


def _event(data: bytes) -> tuple[str, bytes]:
    kind, content = "", b""
    try:
        for tag, begin, stop in _fields(data, 0, len(data)):
            if tag == _1:
                kind = data[begin:stop].decode()
            elif tag == _2:
                for inner, first, last in _fields(data, begin, stop):
                    if inner == _1:
                        content = data[first:last]
    except (IndexError, ValueError) as error:
        raise UnknownForm(f"no event in protobuf: {error}") from None
    return kind, content


def _status(data: bytes, at: int, end: int) -> Json:
    found: Json = {}
    for tag, begin, stop in _fields(data, at, end):
        if tag == _3:
            found["message"] = data[begin:stop].decode()
        elif tag == _4:
            found["reason"] = data[begin:stop].decode()
        elif tag == _CODE:
            found["code"] = begin
    return found


def identity(data: bytes) -> tuple[str, str, str]:
    """Name, UID and resource version of a Node: enough to know whether it was decoded before.

    Raises ``UnknownForm``.
    """
    names = dict.fromkeys(_NAMES, "")
    try:
        _, at, end = _unknown(data)
        for _, begin, stop in _some(data, at, end, frozenset({_1})):
            for inner, first, last in _some(data, begin, stop, frozenset(_NAMES)):
                names[inner] = data[first:last].decode()
    except (IndexError, ValueError) as error:
        raise UnknownForm(f"no Node in protobuf: {error}") from None
    return names[_1], names[_5], names[_6]


_PARTS = frozenset({_1, _2, _3})
_CONDITIONS = frozenset({_4})


def _node(data: bytes, at: int, end: int) -> Json:
    parts = {tag: (begin, stop) for tag, begin, stop in _some(data, at, end, _PARTS)}
    spec = _spec(data, *parts.get(_2, (0, 0)))
    isolated = bool(spec) and ("unschedulable" in spec or any(map(is_own_taint, spec["taints"])))
    conditions = [
        _condition(data, begin, stop)
        for _, begin, stop in _some(data, *parts.get(_3, (0, 0)), _CONDITIONS)
    ]
    meta = _meta(data, *parts.get(_1, (0, 0)), managed=isolated)
    return {"metadata": meta, "spec": spec, "status": {"conditions": conditions}}


_NAMES = {_1: "name", _5: "uid", _6: "resourceVersion"}


def _meta(data: bytes, at: int, end: int, *, managed: bool) -> Json:
    """``managed``: also who wrote the cordon and the taints."""
    labels: dict[str, str] = {}
    notes: dict[str, str] = {}
    managers: list[Json] = []
    meta: Json = {"labels": labels, "annotations": notes, "managedFields": managers}
    while at < end:
        # An entry of a map that does not begin as the wanted ones, all lengths below 128: nearly all.
        tag, size = data[at], data[at + 1]
        short = tag == _LABELS and size < 128 and data[at + 2] == _1 and data[at + 3] < 128
        if short and not data.startswith(_LABEL_STARTS, at + 4):
            at += size + 2
            continue
        tag, at, begin, stop = _next(data, at)
        if tag == _LABELS:
            _entry(data, begin, stop, _LABEL_STARTS, labels)
        elif tag == _ANNOTATIONS:
            _entry(data, begin, stop, _NOTE_STARTS, notes)
        elif tag == _MANAGED:
            if managed:
                managers += _manager(data, begin, stop)
        elif tag in _NAMES:
            meta[_NAMES[tag]] = data[begin:stop].decode()
    if at != end:
        raise UnknownForm("a length beyond the end")
    return meta


def _entry(data: bytes, at: int, end: int, starts: tuple[bytes, ...], into: dict[str, str]) -> None:
    """One entry of a map, if its key has one of these beginnings."""
    row = {tag: data[begin:stop] for tag, begin, stop in _fields(data, at, end)}
    key = row.get(_1, b"")
    if key.startswith(starts):
        into[key.decode()] = row.get(_2, b"").decode()


def _manager(data: bytes, at: int, end: int) -> Iterator[Json]:
    """The entry of a field manager, if it wrote the cordon or the taints."""
    name, written = "", b""
    for tag, begin, stop in _fields(data, at, end):
        if tag == _1:
            name = data[begin:stop].decode()
        elif tag == _7:
            written = data[begin:stop]
    if b'"f:unschedulable"' not in written and b'"f:taints"' not in written:
        return
    for tag, begin, stop in _fields(written, 0, len(written)):
        if tag == _1:
            yield {"manager": name, "fieldsV1": json.loads(written[begin:stop])}


def _spec(data: bytes, at: int, end: int) -> Json:
    """Empty for a Node with neither cordon nor taint."""
    spec: Json = {}
    taints = []
    for tag, begin, stop in _fields(data, at, end):
        if tag == _UNSCHEDULABLE:
            if begin:
                spec["unschedulable"] = True
        elif tag == _5:
            taints.append(_taint(data[begin:stop]))
    if taints:
        spec["taints"] = [dict(taint) for taint in taints]
    return spec


@functools.lru_cache(maxsize=256)
def _taint(data: bytes) -> Json:
    """A whole taint: the list of taints is written as it was read, so nothing of it may be missing."""
    taint: Json = {}
    for tag, begin, stop in _fields(data, 0, len(data)):
        if tag == _4:
            taint["timeAdded"] = _time(data[begin:stop])
        elif tag in _TAINT:
            if begin != stop or tag != _2:
                taint[_TAINT[tag]] = data[begin:stop].decode()
        else:
            raise UnknownForm(f"a taint with tag {tag}")
    return taint


_TAINT = {_1: "key", _2: "value", _3: "effect"}


_CONDITION = {_1: "type", _2: "status", _4: "lastTransitionTime", _5: "reason", _6: "message"}
_CONDITION_TAGS = frozenset(_CONDITION)


def _condition(data: bytes, at: int, end: int) -> Json:
    return {
        _CONDITION[tag]: _time(data[begin:stop]) if tag == _4 else data[begin:stop].decode()
        for tag, begin, stop in _some(data, at, end, _CONDITION_TAGS)
    }


@functools.lru_cache(maxsize=4096)
def _time(data: bytes) -> str | None:
    """RFC 3339 in seconds, as JSON has it; ``None`` for the zero time."""
    for tag, seconds, _ in _fields(data, 0, len(data)):
        if tag == _NUMBER_1:
            if seconds >> 63:
                return None  # before 1970: only Go's zero time
            return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    return None

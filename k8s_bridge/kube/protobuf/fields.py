"""Tags, lengths and numbers: the parts of every message. Pure.

A tag is the field's number times 8, plus 2 for a value with a length and 0 for a number.
"""

from __future__ import annotations

from collections.abc import Iterator

MAGIC = b"k8s\x00"
"""Each object begins with it, then a message ``runtime.Unknown``."""
MOST_BYTES = 64 << 20
"""A longer message than this is not read: the API server refuses objects of more than 2 MiB."""

FIELD_1, FIELD_2, FIELD_3, FIELD_4, FIELD_5, FIELD_6, FIELD_7 = (
    number << 3 | 2 for number in range(1, 8)
)
"""The tags of the fields 1 to 7, for values with a length."""


class UnknownForm(ValueError):
    """Bytes that are no message of the expected kind."""


class Incomplete(Exception):
    """The connection ended before the message did."""


def fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Tag, begin and end of each field that has a length; of a number: tag, the number, 0."""
    while at < end:
        tag, at, begin, stop = next_field(data, at)
        if at > end:
            break
        yield tag, begin, stop
    if at != end:
        raise UnknownForm("a length beyond the end")


def some_fields(
    data: bytes, at: int, end: int, wanted: frozenset[int]
) -> list[tuple[int, int, int]]:
    """As ``fields``, only those with the tags ``wanted``. Most fields of a Node are passed here, without a
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
            tag, at, begin, stop = next_field(data, at)
        if tag in wanted:
            found.append((tag, begin, stop))
    if at != end:
        raise UnknownForm("a length beyond the end")
    return found


def next_field(data: bytes, at: int) -> tuple[int, int, int, int]:
    """The field at ``at``: its tag, where the next one begins, its begin and end (a number and 0)."""
    tag, at = varint(data, at)
    kind = tag & 7
    if kind == 2:
        size, at = varint(data, at)
        return tag, at + size, at, at + size
    if kind == 0:
        number, at = varint(data, at)
        return tag, at, number, 0
    if kind in (1, 5):
        begin, at = at, at + (8 if kind == 1 else 4)
        return tag, at, begin, at
    raise UnknownForm(f"wire type {kind}")


def varint(data: bytes, at: int) -> tuple[int, int]:
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


def text_field(data: bytes, at: int, end: int, wanted: int) -> str:
    """The field with that tag; empty where it is missing."""
    found = ""
    for tag, begin, stop in fields(data, at, end):
        if tag == wanted:
            found = data[begin:stop].decode()
    return found

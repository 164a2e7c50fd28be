"""JSON of the API server, decoded without the names of container images. Pure.

A Node lists up to 50 images with their names: half of its JSON and most of the objects that decoding makes,
in which the bridge reads nothing.
"""

from __future__ import annotations

import json
from typing import Any

_KEY = b'"images":['


def decode(data: bytes) -> Any:
    """The value, with empty lists ``images``. Raises ``ValueError`` for invalid JSON."""
    short = _without_images(data)
    if short is not data:
        try:
            return json.loads(short)
        except ValueError:
            pass  # lists of another form than expected
    return json.loads(data)


def decode_if(data: bytes, word: bytes) -> Any:
    """As ``decode``. A list in which ``word`` is nowhere is decoded without its items: to look for a word in ten
    thousand pods takes some milliseconds, to decode them seconds.
    """
    head, key, _ = data.partition(b'"items":[')
    if key and word not in data:
        try:
            found = json.loads(head + key + b"]}")
        except ValueError:  # a list of another form than expected
            found = {}
        if "metadata" in found:
            return found
    return decode(data)


def _without_images(data: bytes) -> bytes:
    """``data`` itself where a list is not of the expected form.

    Inside a string, a quotation mark follows a backslash, so the key is found only where it is a key.
    """
    pieces, done = [], 0
    key = data.find(_KEY)
    while key >= 0:
        begin = key + len(_KEY)
        end = _end_of_list(data, begin)
        if end < 0:
            return data
        pieces.append(data[done:begin])
        done = end
        key = data.find(_KEY, end)
    return b"".join((*pieces, data[done:])) if pieces else data


def _end_of_list(data: bytes, begin: int) -> int:
    """The index of the bracket that closes a list of objects; -1 where that is not certain.

    Each client that may write a Node's status chooses the names, so a bracket counts only outside of
    strings: after an even number of quotation marks, without any backslash before it.
    """
    if data[begin : begin + 1] == b"]":
        return begin
    at, quotes = begin, 0
    while True:
        end = data.find(b"}]", at)
        if end < 0 or data.find(b"\\", at, end) >= 0:
            return -1
        quotes += data.count(b'"', at, end)
        if quotes % 2 == 0:
            return end + 1
        at = end + 1

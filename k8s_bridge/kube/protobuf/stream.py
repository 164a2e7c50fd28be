"""A list of Nodes, and the events of a watch, while they arrive. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from k8s_bridge.kube.protobuf.fields import (
    FIELD_1,
    FIELD_2,
    MAGIC,
    MOST_BYTES,
    Incomplete,
    UnknownForm,
    fields,
    text_field,
    varint,
)
from k8s_bridge.kube.protobuf.node import Json, node


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
        """Each Node, as ``messages.decode`` returns it. Raises ``UnknownForm`` and ``Incomplete``."""
        try:
            yield from self._nodes()
        except (IndexError, ValueError) as error:
            raise UnknownForm(f"no NodeList in protobuf: {error}") from None

    def _nodes(self) -> Iterator[Json]:
        at, left = self._begin()
        while left:
            # A tag and a length have at most 15 bytes.
            while len(self._buffer) - at < min(left, 16):
                at = self._more(at)
            before = at
            tag, at = varint(self._buffer, at)
            if tag & 7 != 2:
                raise UnknownForm(f"tag {tag} in a NodeList")
            size, at = varint(self._buffer, at)
            left -= at - before + size
            if size > MOST_BYTES or left < 0:
                raise UnknownForm(f"an item of {size} bytes")
            while len(self._buffer) - at < size:
                at = self._more(at)
            if tag == FIELD_2:
                yield node(self._buffer, at, at + size)
            elif tag == FIELD_1:
                self.version = text_field(self._buffer, at, at + size, FIELD_2)
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
            tag, at = varint(data, at)
            size, at = varint(data, at)
            if tag == FIELD_2:
                return at, size
            if tag != FIELD_1:
                raise UnknownForm(f"tag {tag} before a list")
            data[at + size - 1]  # IndexError: more bytes are needed
            if (kind := text_field(data, at, at + size, FIELD_2)) != "NodeList":
                raise UnknownForm(f"an object of kind {kind!r}")
            at += size

    def _more(self, at: int) -> int:
        """Read on, and drop what was read. Returns the new index of the byte at ``at``."""
        chunk = next(self._chunks, None)
        if chunk is None:
            raise Incomplete("the connection ended before the list")
        self._buffer = self._buffer[at:] + chunk
        return 0


def _event(data: bytes) -> tuple[str, bytes]:
    kind, content = "", b""
    try:
        for tag, begin, stop in fields(data, 0, len(data)):
            if tag == FIELD_1:
                kind = data[begin:stop].decode()
            elif tag == FIELD_2:
                for inner, first, last in fields(data, begin, stop):
                    if inner == FIELD_1:
                        content = data[first:last]
    except (IndexError, ValueError) as error:
        raise UnknownForm(f"no event in protobuf: {error}") from None
    return kind, content

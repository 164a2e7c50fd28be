"""TensorFlow checkpoints: ``ckpt-5.index`` and ``ckpt-5.data-00000-of-00002`` …; the path is the
prefix ``ckpt-5``.

The index is a sorted table (the format of LevelDB). Its first entry says how many data files there are,
each other one in which file, from where on and how long a tensor is
(tensorflow/core/protobuf/tensor_bundle.proto), so a short data file is found without reading a tensor.
"""

from __future__ import annotations

import re
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

from holdfast.adapters import safe_file
from holdfast.adapters.safe_file import NotReadable
from slurm_hooks.job.checkpoints.candidate import Candidate, Found, Framework
from slurm_hooks.job.checkpoints.listing import Listing
from slurm_hooks.job.checkpoints.names import some

_INDEX = ".index"
_DATA = re.compile(r"^(?P<prefix>.+)\.data-\d{5}-of-\d{5}$")
_MAGIC = bytes.fromhex("57fb808b247547db")
_FOOTER_BYTES = 48
_TRAILER_BYTES = 5
"""After each block: its compression and a checksum."""
_MAX_INDEX_BYTES = 64 << 20
_SHARD, _OFFSET, _SIZE = 3, 4, 5
_NUM_SHARDS = 1


def _files(listing: Listing) -> list[Found]:
    prefixes: dict[str, list[str]] = {
        name[: -len(_INDEX)]: [name] for name in listing.ending(_INDEX)
    }
    for name in listing.files:
        match = _DATA.match(name)
        if match:
            prefixes.setdefault(match["prefix"], []).append(name)
    return [
        Found(prefix, tuple(sorted(names)))
        for prefix, names in prefixes.items()
        if any(map(_DATA.match, names)) or prefix.rpartition("ckpt")[1]
    ]


def _fault(candidate: Candidate) -> str:
    index = Path(f"{candidate.path}{_INDEX}")
    try:
        data = safe_file.read_bytes(index, max_bytes=_MAX_INDEX_BYTES)
    except FileNotFoundError:
        return f"no {index.name}: the save did not finish"
    except NotReadable as error:
        return f"not a checkpoint: {index.name}: {error.strerror}"
    if len(data) < _FOOTER_BYTES or not data.endswith(_MAGIC):
        return f"truncated {index.name}: no end of the table"
    try:
        shards, needed = _tensors(data)
    except (ValueError, IndexError, struct.error):
        return f"{index.name} is damaged"
    return _data_fault(candidate.path, shards, needed)


def _data_fault(prefix: Path, shards: int, needed: dict[int, int]) -> str:
    bad = []
    for shard in range(shards):
        path = Path(f"{prefix}.data-{shard:05}-of-{shards:05}")
        try:
            facts = path.stat()
        except FileNotFoundError:
            bad.append(f"{path.name} (missing)")
            continue
        if not stat.S_ISREG(facts.st_mode):
            bad.append(f"{path.name} (not a regular file)")
        elif facts.st_size < needed.get(shard, 0):
            bad.append(f"{path.name} ({facts.st_size} of {needed[shard]} bytes)")
    return f"incomplete: {some(bad)}" if bad else ""


def _tensors(data: bytes) -> tuple[int, dict[int, int]]:
    """How many data files there are, and the end of the last tensor in each. Raises ValueError,
    IndexError or struct.error for data of another form; ends early at a compressed block.
    """
    at, _, _ = _handle(data[-_FOOTER_BYTES:], 0)
    _, offset, size = _handle(data[-_FOOTER_BYTES:], at)
    shards = 0
    needed: dict[int, int] = {}
    for _, handle in _entries(data, offset, size):
        _, start, length = _handle(handle, 0)
        for key, value in _entries(data, start, length):
            fields = dict(_numbers(value))
            if not key:
                shards = fields.get(_NUM_SHARDS, 1)
                continue
            end = fields.get(_OFFSET, 0) + fields.get(_SIZE, 0)
            shard = fields.get(_SHARD, 0)
            needed[shard] = max(needed.get(shard, 0), end)
    if not 0 < shards < 100_000:
        raise ValueError(f"{shards} data files")
    return shards, needed


def _handle(data: bytes, at: int) -> tuple[int, int, int]:
    """Where a handle ends, and the offset and the size of the block that it is of."""
    at, offset = _varint(data, at)
    at, size = _varint(data, at)
    return at, offset, size


def _entries(data: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a block. A key begins with a part of the key before it."""
    block = data[offset : offset + size + _TRAILER_BYTES]
    if len(block) != size + _TRAILER_BYTES:
        raise ValueError("a block beyond the end")
    if block[size]:
        raise ValueError("a compressed block")
    (restarts,) = struct.unpack("<L", block[size - 4 : size])
    end, at, key = size - 4 - 4 * restarts, 0, b""
    while at < end:
        at, shared = _varint(block, at)
        at, own = _varint(block, at)
        at, length = _varint(block, at)
        key = key[:shared] + block[at : at + own]
        yield key, block[at + own : at + own + length]
        at += own + length


def _numbers(message: bytes) -> Iterator[tuple[int, int]]:
    """The integer fields of a protocol buffer: number and value."""
    at = 0
    while at < len(message):
        at, tag = _varint(message, at)
        kind = tag & 7
        if kind == 0:
            at, value = _varint(message, at)
            yield tag >> 3, value
        elif kind == 2:
            at, length = _varint(message, at)
            at += length
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError(f"field type {kind}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return at, value
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


FRAMEWORK = Framework(name="tensorflow", files=_files, fault=_fault, counts_steps=True)

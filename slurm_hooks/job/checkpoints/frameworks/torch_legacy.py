"""The legacy format of ``torch.save`` (before 1.6, and today on request): pickles, then raw storages.

Layout (torch/serialization.py, ``_legacy_save``): magic number, protocol version, system facts, the
object, the list of storage keys, each a pickle; then for each key an int64 element count and the
elements.
"""

from __future__ import annotations

import os
import struct
from typing import IO

from slurm_hooks.job.checkpoints.inert_pickle import Inert, Reader, Truncated

_MAGIC = 0x1950A86A20F9469CFC6C
_ITEM_BYTES = {
    "DoubleStorage": 8,
    "FloatStorage": 4,
    "HalfStorage": 2,
    "BFloat16Storage": 2,
    "LongStorage": 8,
    "IntStorage": 4,
    "ShortStorage": 2,
    "CharStorage": 1,
    "ByteStorage": 1,
    "BoolStorage": 1,
    "UntypedStorage": 1,
    "ComplexFloatStorage": 8,
    "ComplexDoubleStorage": 16,
}


def fault(file: IO[bytes], size_bytes: int) -> str:
    """Why this file is not a complete legacy checkpoint, or an empty string."""
    reader = Reader(file)
    try:
        if reader.next() != _MAGIC:
            return "neither a zip archive nor torch's legacy format"
    except Truncated:
        return "neither a zip archive nor torch's legacy format"
    try:
        # Each pickle has its own memo, so each gets its own reader on the same file.
        parts = [Reader(file) for _ in range(4)]
        values = [part.next() for part in parts]
    except Truncated as error:
        return f"truncated legacy file ({error})"
    keys = values[3]
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        return "legacy file without its list of storages"
    return _storage_fault(file, keys, _item_bytes(parts[2].persistent), size_bytes)


def _item_bytes(persistent: list[object]) -> dict[object, int | None]:
    """Storage key → bytes of one element (None: unknown type)."""
    sizes: dict[object, int | None] = {}
    for pid in persistent:
        named = isinstance(pid, tuple) and len(pid) >= 3 and isinstance(pid[2], str)
        if isinstance(pid, tuple) and named and pid[0] == "storage":
            kind = pid[1].named if isinstance(pid[1], type) and issubclass(pid[1], Inert) else ""
            sizes[pid[2]] = _ITEM_BYTES.get(kind)
    return sizes


def _storage_fault(
    file: IO[bytes], keys: list[object], sizes: dict[object, int | None], size_bytes: int
) -> str:
    for key in keys:
        head = file.read(8)
        if len(head) < 8:
            return f"truncated legacy file: storage {key} is missing"
        item_bytes = sizes.get(key)
        if item_bytes is None:
            return ""  # unknown element type: the rest cannot be checked
        (count,) = struct.unpack("<q", head)
        end = file.seek(0, os.SEEK_CUR) + count * item_bytes
        if count < 0 or end > size_bytes:
            return f"truncated legacy file: storage {key} needs {count * item_bytes} bytes"
        file.seek(end)
    return ""

"""Quick checks for ``.pt`` files that are parts of a larger checkpoint.

Nothing is unpickled. ``torch.save`` writes the zip's central directory last, so a file that ends with
one, at the position that it gives, is not truncated. Whole numbers (how many ranks wrote the
checkpoint) are found as bytes: a key's text and the opcode of an integer after it (pickletools:
BINUNICODE, BINPUT, BININT1, BININT2, BININT).
"""

from __future__ import annotations

import os
import re
import struct
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from holdfast.adapters import safe_file
from holdfast.adapters.safe_file import NotReadable
from slurm_hooks.job.checkpoints.names import some

_LOCAL_HEADER = b"PK\x03\x04"
_DIRECTORY = b"PK\x01\x02"
_END, _END_BYTES = b"PK\x05\x06", 22
_END64, _LOCATOR64 = b"PK\x06\x06", b"PK\x06\x07"
_LOCATOR64_BYTES, _END64_BYTES = 20, 56
_LENGTH_AT = 20
"""In an entry of the central directory: how many bytes are stored (APPNOTE.TXT, 4.3.12)."""
_UNKNOWN = 0xFFFFFFFF
_MAX_PICKLE_BYTES = 16 << 20
_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""The magic number, pickled: the format before torch 1.6."""


def part_fault(path: Path) -> str:
    """Why this ``.pt`` file is not complete, or an empty string. Raises OSError."""
    try:
        file, size_bytes, _ = safe_file.open_regular(path, buffer_bytes=0)
    except NotReadable as error:
        return str(error.strerror)
    except FileNotFoundError:
        return "missing"
    with file:
        if not size_bytes:
            return "empty"
        start = file.read(30 + 256)
        if start.startswith(_LEGACY):
            return ""  # nothing at its end tells whether it is complete
        if not start.startswith(_LOCAL_HEADER):
            return "not written by torch"
        return _end_fault(file, size_bytes)


def _end_fault(file: IO[bytes], size_bytes: int) -> str:
    where = _directory_at(file, size_bytes)
    if where is None:
        return "truncated: no central directory at its end"
    if where > size_bytes:
        return "truncated: its central directory is beyond its end"
    file.seek(where)
    return "" if file.read(4) == _DIRECTORY else "its central directory is damaged"


def _directory_at(file: IO[bytes], size_bytes: int) -> int | None:
    """Where the zip's central directory begins; beyond the end where it would not fit; None: there is
    none at the end of the file.
    """
    keep = min(size_bytes, _END_BYTES + _LOCATOR64_BYTES + _END64_BYTES)
    file.seek(-keep, os.SEEK_END)
    tail = file.read(keep)
    end = tail[-_END_BYTES:]
    if not end.startswith(_END):
        return None
    length, offset = struct.unpack("<12xLL2x", end)
    if _UNKNOWN in (length, offset) or tail[-_END_BYTES - _LOCATOR64_BYTES :].startswith(
        _LOCATOR64
    ):
        if not tail.startswith(_END64):
            return None
        length, offset = struct.unpack("<40xQQ", tail[:_END64_BYTES])
    return int(offset) if offset + length <= size_bytes else size_bytes + 1


def faults(folder: Path, names: Iterable[str]) -> str:
    """What is wrong with these files of a folder, a few by name; empty: nothing. Raises OSError."""
    found = [f"{name} ({fault})" for name in names if (fault := part_fault(folder / name))]
    return some(found)


def whole_numbers(path: Path, *keys: str) -> dict[str, int]:
    """The whole numbers that a ``.pt`` file stores under these keys. Nothing is unpickled; a file that
    is not read, or that has none, gives none. For a key that occurs twice the first one counts.
    """
    data = _pickle_in(path)
    found = {}
    for key in keys:
        name = key.encode()
        text = b"X" + struct.pack("<L", len(name)) + name
        match = re.search(
            re.escape(text) + rb"(?:q.|r....)?(?:K(.)|M(..)|J(....))", data, re.DOTALL
        )
        if match:
            digits = next(group for group in match.groups() if group is not None)
            found[key] = int.from_bytes(digits, "little")
    return found


def _pickle_in(path: Path) -> bytes:
    """The bytes of ``data.pkl``, which torch stores as the first entry of the zip."""
    try:
        file, size_bytes, _ = safe_file.open_regular(path, buffer_bytes=0)
        with file:
            head = file.read(30)
            if not head.startswith(_LOCAL_HEADER):
                return b""
            method, name_bytes, extra_bytes = struct.unpack("<8xH16xHH", head)
            name = file.read(name_bytes)
            if method != zipfile.ZIP_STORED or not name.endswith(b"/data.pkl"):
                return b""
            # The local header may not tell the length; the first one of the directory does.
            where = _directory_at(file, size_bytes)
            if where is None or where > size_bytes:
                return b""
            file.seek(where + _LENGTH_AT)
            (length,) = struct.unpack("<L", file.read(4))
            file.seek(len(head) + name_bytes + extra_bytes)
            return file.read(min(length, _MAX_PICKLE_BYTES))
    except (OSError, struct.error):
        return b""

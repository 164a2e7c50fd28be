"""PyTorch Distributed Checkpoint (DCP) folders: ``__RANK_N.distcp`` shards and a ``.metadata``
pickle.

The coordinator writes ``.metadata`` last and by rename, after all ranks' shards
(torch/distributed/checkpoint/filesystem.py, ``FileSystemWriter.finish``). It holds a file, an offset
and a length for every stored item, so a missing or short shard is found without reading a tensor.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import IO, cast

from holdfast.adapters import safe_file
from holdfast.adapters.safe_file import Limited, NotReadable
from slurm_hooks.job.checkpoints.candidate import Candidate, Framework
from slurm_hooks.job.checkpoints.inert_pickle import Reader, Truncated, attributes
from slurm_hooks.job.checkpoints.listing import MAX_ENTRIES, Listing
from slurm_hooks.job.checkpoints.names import some

_METADATA = ".metadata"
_SHARD = ".distcp"
_MAX_METADATA_BYTES = 512 << 20
"""About two million stored items."""


def owns(listing: Listing) -> bool:
    """True for a folder with shards, or with their metadata."""
    return _METADATA in listing.files or any(name.endswith(_SHARD) for name in listing.files)


def fault(candidate: Candidate) -> str:
    """Why the checkpoint is not complete. Raises OSError."""
    return folder_fault(candidate.path)


def folder_fault(path: Path) -> str:
    """As ``fault``, for a folder inside another framework's checkpoint."""
    sizes: dict[str, int] = {}
    has_metadata = False
    for entry in safe_file.scan(path, most=MAX_ENTRIES):
        has_metadata |= entry.name == _METADATA
        if entry.name.endswith(_SHARD):
            facts = entry.stat()
            if not stat.S_ISREG(facts.st_mode):
                return f"not a checkpoint: {entry.name} is not a regular file"
            sizes[entry.name] = facts.st_size
    if not has_metadata:
        return f"no {_METADATA}: the save did not finish ({len(sizes)} shards)"
    try:
        file, size_bytes, _ = safe_file.open_regular(path / _METADATA)
    except NotReadable as error:
        return f"not a checkpoint: {_METADATA}: {error.strerror}"
    with file:
        return _shard_fault(file, sizes) if size_bytes else f"empty {_METADATA}"


def _shard_fault(file: IO[bytes], sizes: dict[str, int]) -> str:
    empty = sorted(name for name, size in sizes.items() if not size)
    if empty:
        return f"empty shard {some(empty)}"
    try:
        needed = _needed_bytes(file)
    except Truncated as error:
        return f"{_METADATA} cannot be read ({error})"
    missing = sorted(name for name in needed if name not in sizes)
    if missing:
        return f"missing shard {some(missing)}"
    short = sorted(name for name, end in needed.items() if sizes[name] < end)
    if short:
        texts = [f"{name} ({sizes[name]} of {needed[name]} bytes)" for name in short]
        return f"truncated shard {some(texts)}"
    return "" if sizes else "no shard"


def _needed_bytes(file: IO[bytes]) -> dict[str, int]:
    """Shard name → the end of the last item that ``.metadata`` places in it."""
    limited = cast("IO[bytes]", Limited(file, _MAX_METADATA_BYTES))
    reader = Reader(limited, frozenset({"_StorageInfo"}))
    reader.next()
    needed: dict[str, int] = {}
    for info in attributes(reader.found):
        name, offset, length = info.get("relative_path"), info.get("offset"), info.get("length")
        if isinstance(name, str) and isinstance(offset, int) and isinstance(length, int):
            needed[name] = max(needed.get(name, 0), offset + length)
    return needed


def mentions(path: Path, key: bytes) -> bool:
    """True when the metadata contain these bytes. Nothing is unpickled. Raises OSError."""
    try:
        return key in safe_file.read_bytes(path / _METADATA, max_bytes=_MAX_METADATA_BYTES)
    except (FileNotFoundError, NotReadable):
        return False


FRAMEWORK = Framework(
    name="torch-dcp",
    owns_folder=owns,
    fault=fault,
)

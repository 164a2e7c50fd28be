"""Orbax (JAX) checkpoints: a folder for each step, with a folder for each item.

A save writes into ``STEP.orbax-checkpoint-tmp…`` and renames it; on object stores, which cannot rename,
``commit_success.txt`` is written last instead. ``_CHECKPOINT_METADATA`` has the time of the commit.
An item's arrays are in OCDBT files, whose manifest begins with a magic number and its own length
(google.github.io/tensorstore, "OCDBT storage format").
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

from holdfast.adapters import safe_file
from holdfast.adapters.safe_file import NotReadable
from slurm_hooks.job.checkpoints.candidate import Candidate, Framework
from slurm_hooks.job.checkpoints.listing import Listing, list_folder

_STEP_METADATA, _ITEM_METADATA = "_CHECKPOINT_METADATA", "_METADATA"
_MANIFEST = "manifest.ocdbt"
_TEMPORARY = ".orbax-checkpoint-tmp"
_COMMIT = "commit_success.txt"
_MAGIC = 0x0CDB3A2A
_MAX_JSON_BYTES = 64 << 20
_PROCESS = "ocdbt.process_"


def _owns_folder(listing: Listing) -> bool:
    return (
        _STEP_METADATA in listing.files
        or _MANIFEST in listing.files
        or (_ITEM_METADATA in listing.files and bool(listing.folders))
        or _TEMPORARY in listing.name
    )


def _fault(candidate: Candidate) -> str:
    path, listing = candidate.path, list_folder(candidate.path)
    if _STEP_METADATA not in listing.files:
        return _item_fault(listing)
    why = _metadata_fault(path)
    if why:
        return why
    items = 0
    for name in sorted(listing.folders):
        item = list_folder(path / name)
        if _COMMIT in listing.files and _COMMIT not in item.files and _ITEM_METADATA in item.files:
            return f"{name}: no {_COMMIT}: the save did not finish"
        why = _item_fault(item) if item.files & {_ITEM_METADATA, _MANIFEST} else ""
        if why:
            return f"{name}: {why}"
        items += bool(item.files or item.folders)
    return "" if items else "no item"


def _metadata_fault(path: Path) -> str:
    facts = _table(path / _STEP_METADATA)
    if facts is None:
        return f"{_STEP_METADATA} is not complete JSON"
    # Releases before 0.6 write no times.
    if "commit_timestamp_nsecs" in facts and not facts["commit_timestamp_nsecs"]:
        return "not committed: the save did not finish"
    return ""


def _item_fault(listing: Listing) -> str:
    if _ITEM_METADATA in listing.files and _table(listing.path / _ITEM_METADATA) is None:
        return f"{_ITEM_METADATA} is not complete JSON"
    if _MANIFEST not in listing.files:
        merging = any(name.startswith(_PROCESS) for name in listing.folders)
        return f"no {_MANIFEST}: the save did not finish" if merging else ""
    why = _manifest_fault(listing.path / _MANIFEST)
    if why or "d" not in listing.folders:
        return why
    data = list_folder(listing.path / "d")
    empty = [name for name in data.files if not (data.path / name).stat().st_size]
    return f"empty data file {empty[0]}" if empty else ""


def _manifest_fault(path: Path) -> str:
    try:
        file, size_bytes, _ = safe_file.open_regular(path)
    except NotReadable as error:
        return f"not a checkpoint: {_MANIFEST}: {error.strerror}"
    with file:
        head = file.read(12)
    if len(head) < 12:
        return f"truncated {_MANIFEST}"
    (magic,), (length,) = struct.unpack(">L", head[:4]), struct.unpack("<Q", head[4:])
    if magic != _MAGIC:
        return f"{_MANIFEST} is not one of OCDBT"
    if length != size_bytes:
        return f"truncated {_MANIFEST} ({size_bytes} of {length} bytes)"
    return ""


def _table(path: Path) -> dict[str, object] | None:
    """The JSON object in a file; None where there is none."""
    try:
        facts = json.loads(safe_file.read_bytes(path, max_bytes=_MAX_JSON_BYTES))
    except (ValueError, RecursionError, NotReadable):
        return None
    return facts if isinstance(facts, dict) else None


FRAMEWORK = Framework(name="orbax", owns_folder=_owns_folder, fault=_fault, counts_steps=True)

"""PyTorch Distributed Checkpoint (DCP) folders: ``__RANK_N.distcp`` shards and a ``.metadata``
pickle.

The coordinator writes ``.metadata`` last and by rename, after all ranks' shards
(torch/distributed/checkpoint/ filesystem.py, ``FileSystemWriter.finish``). It names for every
stored item a file, an offset and a length, so a missing or short shard shows without reading a
tensor.
"""

from __future__ import annotations

from pathlib import Path

from slurm_hooks.job.checkpoints.candidate import Framework
from slurm_hooks.job.checkpoints.inert_pickle import Reader, Truncated, attributes

_METADATA = ".metadata"
_SHARD = ".distcp"
_MAX_NAMED = 3


def _owns_folder(names: frozenset[str]) -> bool:
    return _METADATA in names or any(name.endswith(_SHARD) for name in names)


def _fault(path: Path) -> str:
    metadata = path / _METADATA
    sizes = {
        entry.name: entry.stat().st_size for entry in path.iterdir() if entry.name.endswith(_SHARD)
    }
    if not metadata.exists():
        return f"no {_METADATA}: the save did not finish ({len(sizes)} shards)"
    if not metadata.stat().st_size:
        return f"empty {_METADATA}"
    empty = sorted(name for name, size in sizes.items() if not size)
    if empty:
        return f"empty shard {_some(empty)}"
    try:
        needed = _needed_bytes(metadata)
    except Truncated as error:
        return f"{_METADATA} cannot be read ({error})"
    missing = sorted(name for name in needed if name not in sizes)
    if missing:
        return f"missing shard {_some(missing)}"
    short = sorted(name for name, end in needed.items() if sizes[name] < end)
    if short:
        told = [f"{name} ({sizes[name]} of {needed[name]} bytes)" for name in short]
        return f"truncated shard {_some(told)}"
    return "" if sizes else "no shard at all"


def _needed_bytes(metadata: Path) -> dict[str, int]:
    """Shard name → the end of the last item that ``.metadata`` places in it."""
    with metadata.open("rb") as file:
        reader = Reader(file, frozenset({"_StorageInfo"}))
        reader.next()
    needed: dict[str, int] = {}
    for info in attributes(reader.found):
        name, offset, length = info.get("relative_path"), info.get("offset"), info.get("length")
        if isinstance(name, str) and isinstance(offset, int) and isinstance(length, int):
            needed[name] = max(needed.get(name, 0), offset + length)
    return needed


def _some(names: list[str]) -> str:
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


FRAMEWORK = Framework(
    name="torch-dcp",
    owns_file=lambda _: False,
    owns_folder=_owns_folder,
    fault=_fault,
)

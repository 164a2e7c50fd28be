"""safetensors: one file, or a folder with several, of which ``*.index.json`` names the shards.

A file begins with the length of its header (8 bytes, little endian), then the header (JSON): name →
type, shape, and ``data_offsets`` in the rest of the file. The end of the last tensor is the end of the
file, so a truncated file is found without reading a tensor
(huggingface.co/docs/safetensors, "Format").
"""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

from holdfast.adapters import safe_file
from holdfast.adapters.safe_file import NotReadable
from slurm_hooks.job.checkpoints.candidate import Candidate, Found, Framework
from slurm_hooks.job.checkpoints.frameworks.torch_parts import faults
from slurm_hooks.job.checkpoints.listing import Listing, list_folder
from slurm_hooks.job.checkpoints.names import rank_in, some, step_in

END = ".safetensors"
INDEX = ".safetensors.index.json"
_MAX_HEADER_BYTES = 100_000_000
"""The format's own limit."""
_PARSED_BYTES = 256 << 10
"""A larger header is not parsed: its offsets are found as text."""
_MAX_INDEX_BYTES = 64 << 20
_OFFSETS = re.compile(rb'"data_offsets"\s*:\s*\[\s*\d{1,19}\s*,\s*(\d{1,19})\s*\]')
_TORCH = (".bin", ".pt", ".pth")
_SHARD = re.compile(r"-\d{5}-of-\d{5}\.safetensors$")


def file_fault(path: Path) -> str:
    """Why this file is not complete, or an empty string. Raises OSError."""
    try:
        file, size_bytes, _ = safe_file.open_regular(path)
    except NotReadable as error:
        return f"not a checkpoint: {error.strerror}"
    with file:
        head = file.read(8)
        if len(head) < 8:
            return "truncated: shorter than its header" if head else "empty file"
        (length,) = struct.unpack("<Q", head)
        if length > _MAX_HEADER_BYTES:
            return f"not a safetensors file: a header of {length} bytes"
        if 8 + length > size_bytes:
            return f"truncated in its header ({size_bytes} of at least {8 + length} bytes)"
        end = _data_bytes(file.read(length))
    if end is None:
        return "not a safetensors file: its header is not JSON"
    if 8 + length + end != size_bytes:
        return f"truncated ({size_bytes} of {8 + length + end} bytes)"
    return ""


def _data_bytes(header: bytes) -> int | None:
    """Where the last tensor ends; None for a header that is not JSON."""
    if len(header) > _PARSED_BYTES:
        opened, closed = header[:1], header.rstrip(b" ")[-1:]
        ends = map(int, _OFFSETS.findall(header))
        return max(ends, default=0) if (opened, closed) == (b"{", b"}") else None
    try:
        tensors = json.loads(header)
        found = (tensor["data_offsets"][1] for name, tensor in tensors.items() if name[:2] != "__")
        return max(map(int, found), default=0)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return None


def shards_fault(folder: Path, index: str, files: frozenset[str]) -> str:
    """Why the shards that an index names are not complete. Raises OSError."""
    try:
        table = json.loads(safe_file.read_bytes(folder / index, max_bytes=_MAX_INDEX_BYTES))
        names = {str(name) for name in table["weight_map"].values()}
    except NotReadable as error:
        return f"not a checkpoint: {index}: {error.strerror}"
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return f"{index} is not complete JSON"
    missing = {name for name in names if name not in files}
    if missing:
        return f"missing shard {some(missing)}"
    if index.endswith(INDEX):
        return files_fault(folder, sorted(names))
    return faults(folder, sorted(names))


def files_fault(folder: Path, names: list[str]) -> str:
    """What is wrong with these safetensors files, a few by name. Raises OSError."""
    broken = [f"{name}: {why}" for name in names if (why := file_fault(folder / name))]
    return some(broken)


def _owns_folder(listing: Listing) -> bool:
    tensors = listing.ending(END)
    if not tensors:
        return False
    if listing.ending(INDEX) or "config.json" in listing.files:
        return True
    # One that Accelerate saved: model, optimizer and the ranks' random states under fixed names.
    if listing.ending(*_TORCH) and not any(step_in(name)[0] is not None for name in tensors):
        return True
    return all(map(_SHARD.search, tensors)) or all(map(rank_in, tensors))


def _folder_fault(candidate: Candidate) -> str:
    listing = list_folder(candidate.path)
    for index in listing.ending(INDEX):
        why = shards_fault(candidate.path, index, listing.files)
        if why:
            return why
    names = listing.ending(END)
    broken = files_fault(candidate.path, names) or faults(candidate.path, listing.ending(*_TORCH))
    return broken or _numbered_fault(names) or candidate.missing


def _numbered_fault(names: list[str]) -> str:
    """``model-00001-of-00003.safetensors`` without an index: the names tell how many there are."""
    ranked = [found for found in map(rank_in, names) if found and found.world]
    counts: dict[tuple[str, int], int] = {}
    for one in ranked:
        counts[one.rest, one.world] = counts.get((one.rest, one.world), 0) + 1
    short = [f"{count} of {world} shards" for (_, world), count in counts.items() if count < world]
    return some(short)


def _files(listing: Listing) -> list[Found]:
    """A shard of a model is none: its number is no step."""
    names = listing.ending(END, f"{END}.tmp")
    return [Found(name) for name in names if not _SHARD.search(name)]


def _parts(listing: Listing) -> frozenset[str]:
    return frozenset(
        name for name in listing.files if rank_in(name) or name.endswith((*_TORCH, ".pkl"))
    )


FOLDER = Framework(name="safetensors", owns_folder=_owns_folder, fault=_folder_fault, parts=_parts)
FILE = Framework(
    name="safetensors-file", files=_files, fault=lambda candidate: file_fault(candidate.path)
)

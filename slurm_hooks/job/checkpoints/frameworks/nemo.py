"""Checkpoints of NeMo: a folder with ``weights/`` and ``context/``, or an archive ``*.nemo``.

While NeMo writes or deletes a checkpoint NAME, a file ``NAME-unfinished`` is beside it
(nemo/utils/callbacks/nemo_model_checkpoint.py). The weights are a Megatron distributed checkpoint.
"""

from __future__ import annotations

import os
from dataclasses import replace

from holdfast.adapters import safe_file
from holdfast.adapters.safe_file import NotReadable
from slurm_hooks.job.checkpoints.candidate import Candidate, Found, Framework
from slurm_hooks.job.checkpoints.frameworks import megatron, torch_dcp
from slurm_hooks.job.checkpoints.listing import Listing, list_folder

MARKER = "-unfinished"
_ENDS = (".nemo", ".ckpt")
_WEIGHTS, _CONTEXT = "weights", "context"
_ARCHIVE = ".nemo"
_BLOCK_BYTES = 512
_GZIP = b"\x1f\x8b"


def is_unfinished(name: str, beside: frozenset[str]) -> bool:
    """True when NeMo's marker for this checkpoint is beside it."""
    stem = name
    for end in _ENDS:
        stem = stem.removesuffix(end)
    return stem + MARKER in beside


def _owns_folder(listing: Listing) -> bool:
    return _WEIGHTS in listing.folders and (
        _CONTEXT in listing.folders or "consumed_samples" in listing.name
    )


def _folder_fault(candidate: Candidate) -> str:
    listing = list_folder(candidate.path)
    if _CONTEXT not in listing.folders:
        return f"no {_CONTEXT}: the save did not finish"
    weights = replace(candidate, path=candidate.path / _WEIGHTS)
    inside = list_folder(weights.path)
    if megatron.is_distributed(inside):
        why = megatron.distributed_fault(weights)
    else:
        why = torch_dcp.fault(weights) if torch_dcp.owns(inside) else "not recognised"
    return f"{_WEIGHTS}: {why}" if why else ""


def _files(listing: Listing) -> list[Found]:
    return [Found(name) for name in listing.ending(_ARCHIVE)]


def _archive_fault(candidate: Candidate) -> str:
    """A tar archive ends with two blocks of zeros (POSIX pax, "End-of-archive")."""
    try:
        file, size_bytes, _ = safe_file.open_regular(candidate.path)
    except NotReadable as error:
        return f"not a checkpoint: {error.strerror}"
    with file:
        head = file.read(_BLOCK_BYTES)
        if not head:
            return "empty file"
        if head.startswith(_GZIP):
            return "a compressed archive cannot be checked: use one without compression"
        if head[257:262] != b"ustar":
            return "not a tar archive"
        if size_bytes % _BLOCK_BYTES or size_bytes < 3 * _BLOCK_BYTES:
            return "truncated: no end of the archive"
        file.seek(-2 * _BLOCK_BYTES, os.SEEK_END)
        return "truncated: no end of the archive" if file.read().strip(b"\0") else ""


FOLDER = Framework(name="nemo", owns_folder=_owns_folder, fault=_folder_fault)
ARCHIVE = Framework(name="nemo-archive", files=_files, fault=_archive_fault)

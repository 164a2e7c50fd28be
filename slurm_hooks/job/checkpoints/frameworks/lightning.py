"""Checkpoints of Lightning: a file ``*.ckpt`` (a ``.pt`` file), or a folder for sharded training.

A file is written under a temporary name and moved, but a signal or a full disk can still cut it short
where the file system does not rename atomically, so it is checked like any ``.pt`` file. A folder holds
``meta.pt`` and DCP shards (FSDP), or ``checkpoint/`` in DeepSpeed's format.
"""

from __future__ import annotations

import re
from pathlib import Path

from slurm_hooks.job.checkpoints.candidate import Candidate, Found, Framework
from slurm_hooks.job.checkpoints.frameworks import deepspeed, torch_dcp, torch_file
from slurm_hooks.job.checkpoints.frameworks.torch_parts import part_fault, whole_numbers
from slurm_hooks.job.checkpoints.listing import Listing, list_folder

END = ".ckpt"
_META = "meta.pt"
_INNER = "checkpoint"
_TEMPORARY = re.compile(re.escape(END) + r"\.(?:tmp|part)\w*$")


def _files(listing: Listing) -> list[Found]:
    return [Found(name) for name in listing.files if name.endswith(END) or _TEMPORARY.search(name)]


def _file_fault(candidate: Candidate) -> str:
    return torch_file.fault(candidate.path)


def _owns_folder(listing: Listing) -> bool:
    if _META in listing.files and torch_dcp.owns(listing):
        return True
    return listing.name.endswith(END) and (_INNER in listing.folders or bool(listing.files))


def _folder_fault(candidate: Candidate) -> str:
    path, listing = candidate.path, list_folder(candidate.path)
    if _INNER in listing.folders:
        why = deepspeed.tag_fault(path / _INNER)
        return f"{_INNER}: {why}" if why else ""
    if _META not in listing.files:
        return f"no {_META}: the save did not finish"
    why = part_fault(path / _META)
    return f"{_META}: {why}" if why else torch_dcp.fault(candidate)


def _step(path: Path) -> int | None:
    """The step that Lightning stores: ``last.ckpt`` and ``hpc_ckpt_1.ckpt`` do not have it in their
    names."""
    source = path / _META if path.is_dir() else path
    return whole_numbers(source, "global_step").get("global_step")


FILE = Framework(name="lightning", files=_files, fault=_file_fault, step=_step)
FOLDER = Framework(
    name="lightning-sharded", owns_folder=_owns_folder, fault=_folder_fault, step=_step
)

"""Checkpoints of the Trainer of Hugging Face transformers: ``checkpoint-500/``. There is no tracker.

The first rank writes ``trainer_state.json`` last (transformers/trainer.py, ``_save_checkpoint``), with
the step. The other ranks' ``rng_state_N.pth`` and FSDP's or DeepSpeed's folders are not ordered with
it.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from holdfast.adapters import safe_file
from holdfast.adapters.safe_file import NotReadable
from slurm_hooks.job.checkpoints.candidate import Candidate, Framework
from slurm_hooks.job.checkpoints.frameworks import deepspeed, safetensors, torch_dcp
from slurm_hooks.job.checkpoints.frameworks.torch_parts import faults
from slurm_hooks.job.checkpoints.listing import Listing, list_folder

STATE = "trainer_state.json"
_NAME = re.compile(r"^checkpoint-(\d{1,18})$")
_MODELS = (
    "model.safetensors",
    "pytorch_model.bin",
    "adapter_model.safetensors",
    "adapter_model.bin",
)
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_SHARDED = re.compile(r"^(?:pytorch_model_fsdp|optimizer)_\d+$")
_TORCH = (".pt", ".pth", ".bin")
_SAVED = re.compile(r"(?:optimizer|scheduler|scaler)\.pt|rng_state(?:_\d+)?\.pth")
_PARSED_BYTES = 64 << 10
_STEP = re.compile(rb'"global_step":\s*(\d{1,18})')


def _owns_folder(listing: Listing) -> bool:
    if STATE in listing.files:
        return True
    named = bool(_NAME.match(listing.name))
    return named and bool(
        listing.files & {*_MODELS, *_INDEXES, "optimizer.pt", "training_args.bin"}
    )


def _fault(candidate: Candidate) -> str:
    path, listing = candidate.path, list_folder(candidate.path)
    if STATE not in listing.files:
        return f"no {STATE}: the save did not finish"
    why = _state_fault(path)
    for index in _INDEXES:
        if not why and index in listing.files:
            why = safetensors.shards_fault(path, index, listing.files)
    why = why or safetensors.files_fault(path, listing.ending(safetensors.END))
    why = why or faults(path, listing.ending(*_TORCH)) or _folders_fault(listing)
    if why:
        return why
    has_model = bool(listing.files & {*_MODELS, *_INDEXES}) or bool(listing.folders)
    return candidate.missing if has_model else "no model"


def _folders_fault(listing: Listing) -> str:
    """FSDP's and DeepSpeed's folders inside the checkpoint."""
    for name in sorted(listing.folders):
        path = listing.path / name
        if _SHARDED.match(name):
            why = torch_dcp.folder_fault(path)
        elif name.startswith("global_step"):
            why = deepspeed.tag_fault(path)
        else:
            continue
        if why:
            return f"{name}: {why}"
    return ""


def _state_fault(path: Path) -> str:
    """The state is complete JSON and of the step that the folder's name gives."""
    try:
        file, size_bytes, _ = safe_file.open_regular(path / STATE)
    except NotReadable as error:
        return f"not a checkpoint: {STATE}: {error.strerror}"
    with file:
        head = file.read(_PARSED_BYTES)
        file.seek(max(0, size_bytes - 16), os.SEEK_SET)
        end = file.read(16).rstrip()
    # The log of a long run is large: of that file only the first and last bytes are read.
    if size_bytes <= _PARSED_BYTES:
        try:
            json.loads(head)
        except (ValueError, RecursionError):
            return f"{STATE} is not complete JSON"
    elif not end.endswith(b"}"):
        return f"{STATE} is not complete JSON"
    step, named = _STEP.search(head), _NAME.match(path.name)
    if step is None:
        return f"{STATE} has no global_step"
    if named and int(step[1]) != int(named[1]):
        return f"{STATE} is of step {int(step[1])}"
    return ""


def _parts(listing: Listing) -> frozenset[str]:
    return frozenset(name for name in listing.files if _SAVED.fullmatch(name))


FRAMEWORK = Framework(
    name="hf-trainer", owns_folder=_owns_folder, fault=_fault, parts=_parts, counts_steps=True
)

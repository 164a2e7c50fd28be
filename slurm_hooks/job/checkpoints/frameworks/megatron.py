"""Megatron-LM checkpoints: ``iter_0000100/`` beside ``latest_checkpointed_iteration.txt``.

Distributed (megatron/core/dist_checkpointing): the shards, then ``.metadata``, and ``metadata.json``
last. The state that all ranks share is in ``common.pt``, which rank 0 writes first, or since
megatron-core 0.17 in a shard. A folder without one of these was not finished. Each tensor is a DCP item
(``torch_dist``) or a folder (``zarr``).

Legacy: a folder ``mp_rank_TP`` or ``mp_rank_TP_PP`` for each pair of ranks, with
``model_optim_rng.pt``. Its arguments tell how many there were.
"""

from __future__ import annotations

import json
import re

from holdfast.adapters import safe_file
from slurm_hooks.job.checkpoints.candidate import Candidate, Framework
from slurm_hooks.job.checkpoints.frameworks import torch_dcp
from slurm_hooks.job.checkpoints.frameworks.torch_parts import part_fault, whole_numbers
from slurm_hooks.job.checkpoints.listing import Listing, list_folder
from slurm_hooks.job.checkpoints.names import some

TRACKER = "latest_checkpointed_iteration.txt"
_COMMON, _METADATA = "common.pt", "metadata.json"
_COMMON_SHARD = b"common_state"
_ITERATION = re.compile(r"^(iter_\d{7,}|release)$")
_RANK = re.compile(r"^mp_rank_(\d{2,})(?:_(\d{3}))?(?:_(\d{3}))?$")
_MODEL_FILES = ("model_optim_rng.pt", "model_rng.pt", "model_states.pt")
_OPTIMIZER_FILES = ("distrib_optim.pt", "optim.pt")
_TP, _PP = "tensor_model_parallel_size", "pipeline_model_parallel_size"
_MAX_JSON_BYTES = 1 << 20


def is_distributed(listing: Listing) -> bool:
    """True for a folder that Megatron's dist_checkpointing wrote or began to write."""
    shards = torch_dcp.owns(listing)
    if _METADATA in listing.files and (shards or _COMMON in listing.files):
        return True
    if _COMMON in listing.files:
        return True
    return bool(_ITERATION.match(listing.name)) and shards and TRACKER in listing.beside


def distributed_fault(candidate: Candidate) -> str:
    """Why a distributed checkpoint is not complete."""
    listing = list_folder(candidate.path)
    if _METADATA not in listing.files:
        no_common = "" if _COMMON in listing.files else f" and no {_COMMON}"
        return f"no {_METADATA}{no_common}: the save did not finish"
    try:
        text = safe_file.read_bytes(candidate.path / _METADATA, max_bytes=_MAX_JSON_BYTES)
        facts = json.loads(text)
    except (ValueError, RecursionError):
        return f"{_METADATA} is not JSON: the save did not finish"
    except safe_file.NotReadable as error:
        return f"not a checkpoint: {_METADATA}: {error.strerror}"
    backend = facts.get("sharded_backend") if isinstance(facts, dict) else None
    if not isinstance(backend, str):
        return f"{_METADATA} does not say how the tensors are stored"
    why = _common_fault(listing, own_file="common_backend" in facts)
    if why:
        return why
    if backend == "zarr":
        return "" if listing.folders else "no tensor"
    return torch_dcp.fault(candidate)


def _common_fault(listing: Listing, *, own_file: bool) -> str:
    """Why the state that all ranks share is missing. ``own_file``: this release wrote ``common.pt``."""
    if _COMMON in listing.files:
        why = part_fault(listing.path / _COMMON)
        return f"{_COMMON}: {why}" if why else ""
    if not own_file and torch_dcp.mentions(listing.path, _COMMON_SHARD):
        return ""
    return f"no {_COMMON}: the save did not finish"


def _is_legacy(listing: Listing) -> bool:
    return any(map(_RANK.match, listing.folders))


def _ranks(listing: Listing) -> frozenset[str]:
    return frozenset(name for name in listing.folders if _RANK.match(name))


def _legacy_fault(candidate: Candidate) -> str:
    ranks = sorted(_ranks(list_folder(candidate.path)))
    model, broken, optimizers = "", [], set()
    for rank in ranks:
        inside = list_folder(candidate.path / rank)
        models = [name for name in _MODEL_FILES if name in inside.files]
        if not models:
            broken.append(f"{rank} (no {_MODEL_FILES[0]})")
            continue
        model = model or f"{rank}/{models[0]}"
        optimizers.add(tuple(name for name in _OPTIMIZER_FILES if name in inside.files))
        for name in inside.ending(".pt"):
            why = part_fault(candidate.path / rank / name)
            if why:
                broken.append(f"{rank}/{name} ({why})")
    if broken:
        return f"incomplete: {some(broken)}"
    if len(optimizers) > 1:
        return f"{_OPTIMIZER_FILES[0]} is missing in some of the {len(ranks)} folders of ranks"
    return _grid_fault(candidate, ranks, model)


def _grid_fault(candidate: Candidate, ranks: list[str], model: str) -> str:
    """Every pair of a tensor and a pipeline rank has a folder."""
    found = {(int(match[1]), int(match[2] or 0)) for match in map(_RANK.match, ranks) if match}
    sizes = whole_numbers(candidate.path / model, _TP, _PP)
    tensor = sizes.get(_TP, 0) or 1 + max(rank for rank, _ in found)
    pipeline = sizes.get(_PP, 0) or 1 + max(rank for _, rank in found)
    if len(found) < tensor * pipeline:
        return f"{len(found)} of {tensor * pipeline} folders of ranks"
    return "" if sizes.keys() >= {_TP, _PP} else candidate.missing


DISTRIBUTED = Framework(
    name="megatron-dist",
    owns_folder=is_distributed,
    fault=distributed_fault,
    counts_steps=True,
)
LEGACY = Framework(
    name="megatron-legacy",
    owns_folder=_is_legacy,
    fault=_legacy_fault,
    parts=_ranks,
    counts_steps=True,
)

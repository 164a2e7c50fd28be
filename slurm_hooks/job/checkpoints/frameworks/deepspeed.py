"""DeepSpeed checkpoints: a folder ``global_step100/`` (the tag) beside the tracker ``latest``.

``latest`` proves nothing: rank 0 writes it before the other ranks have finished. Every data-parallel
rank writes an optimizer file (ZeRO), and every model-parallel rank a model file; with ZeRO 3 all ranks
write both. The model file says how many of each there are (deepspeed/runtime/engine.py,
``_save_checkpoint``: dp_world_size, mp_world_size).
"""

from __future__ import annotations

import re
from pathlib import Path

from slurm_hooks.job.checkpoints.candidate import Candidate, Framework
from slurm_hooks.job.checkpoints.frameworks.torch_parts import faults, whole_numbers
from slurm_hooks.job.checkpoints.listing import Listing, list_folder

_MODEL = re.compile(r"^(?:zero_pp_rank_(\d+)_)?mp_rank_(\d+)_model_states\.pt$")
_OPTIMIZER = re.compile(r"^(?:bf16_|fp16_)?zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt$")
_ENDS = ("_model_states.pt", "_optim_states.pt", "-model_states.pt")
_DP, _MP = "dp_world_size", "mp_world_size"


def is_tag(listing: Listing) -> bool:
    """True for the folder of one tag."""
    return any(name.endswith(_ENDS) for name in listing.files)


def parts(listing: Listing) -> frozenset[str]:
    """The files of ranks, and of layers with pipeline parallelism."""
    return frozenset(name for name in listing.files if name.endswith(_ENDS))


def tag_fault(path: Path, missing: str = "") -> str:
    """Why the folder of a tag is not complete. Raises OSError."""
    names = sorted(parts(list_folder(path)))
    models = [match for match in map(_MODEL.match, names) if match]
    optimizers = [match for match in map(_OPTIMIZER.match, names) if match]
    if not models:
        return "no model_states file: the save did not finish"
    broken = faults(path, names)
    if broken:
        return f"incomplete: {broken}"
    sizes = whole_numbers(path / models[0].string, _DP, _MP)
    seen = [(int(match[1] or 0), int(match[2])) for match in (*models, *optimizers)]
    data = sizes.get(_DP) or 1 + max(rank for rank, _ in seen)
    model = sizes.get(_MP) or 1 + max(rank for _, rank in seen)
    sharded = any(match[1] for match in models)
    wanted = data * model if sharded else model
    if len(models) < wanted:
        return f"{len(models)} of {wanted} model_states files"
    if optimizers and len(optimizers) < data * model:
        return f"{len(optimizers)} of {data * model} optim_states files"
    # Without ZeRO there is no optimizer file; only the other checkpoints show that there should be.
    return missing if not optimizers or sizes.keys() < {_DP, _MP} else ""


def _fault(candidate: Candidate) -> str:
    return tag_fault(candidate.path, candidate.missing)


FRAMEWORK = Framework(
    name="deepspeed", owns_folder=is_tag, fault=_fault, parts=parts, counts_steps=True
)

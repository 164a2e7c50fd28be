"""The catalogue of frameworks: how each of them writes a checkpoint, one file for each of them."""

from __future__ import annotations

from slurm_hooks.job.checkpoints.candidate import Candidate, Framework
from slurm_hooks.job.checkpoints.frameworks import (
    deepspeed,
    hf_trainer,
    lightning,
    megatron,
    nemo,
    orbax,
    safetensors,
    tensorflow,
    torch_dcp,
    torch_file,
    torch_folder,
    torch_ranks,
)

FRAMEWORKS: tuple[Framework, ...] = (
    orbax.FRAMEWORK,
    nemo.FOLDER,
    megatron.DISTRIBUTED,
    megatron.LEGACY,
    hf_trainer.FRAMEWORK,
    lightning.FOLDER,
    deepspeed.FRAMEWORK,
    torch_dcp.FRAMEWORK,
    tensorflow.FRAMEWORK,
    nemo.ARCHIVE,
    torch_ranks.FRAMEWORK,
    lightning.FILE,
    safetensors.FOLDER,
    safetensors.FILE,
    torch_folder.FRAMEWORK,
    torch_file.FRAMEWORK,
)
"""In this order: the first that recognises a folder or a file has it."""
_BY_NAME = {framework.name: framework for framework in FRAMEWORKS}


def framework_of(candidate: Candidate) -> Framework | None:
    """The framework that checks this candidate; None for one that is not recognised."""
    return _BY_NAME.get(candidate.framework)

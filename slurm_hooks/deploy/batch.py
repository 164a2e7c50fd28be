"""A batch script that survives bad nodes, for each framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.render.document import JOB_PATH, NUMBER, PATH, Document, Value
from slurm_hooks.deploy import PACKAGE


class _Framework(NamedTuple):
    """How a framework's program is started, and how it takes the checkpoint.

    ``torchrun``: one task for each node starts the ranks. Otherwise srun starts them.
    """

    about: str
    torchrun: bool
    arguments: tuple[str, ...] = ()


_FROM = "The program loads the checkpoint in HOLDFAST_RESUME_FROM, unless that is empty."
_LEFT_OUT = "Without a checkpoint, arguments with {…} are left out."
_FRAMEWORKS = {
    "srun": _Framework(_FROM, torchrun=False),
    "torchrun": _Framework(_FROM, torchrun=True),
    "megatron": _Framework(
        _LEFT_OUT,
        torchrun=True,
        arguments=(
            "--save {checkpoints}",
            "--load '{resume_parent}'",
            "--ckpt-step '{resume_step}'",
        ),
    ),
    "deepspeed": _Framework(
        "engine.load_checkpoint takes the folder and the name of HOLDFAST_RESUME_FROM (the tag).",
        torchrun=True,
    ),
    "lightning": _Framework(_LEFT_OUT, torchrun=False, arguments=("fit", "--ckpt_path='{resume}'")),
    "hf": _Framework(
        _LEFT_OUT,
        torchrun=True,
        arguments=("--output_dir {checkpoints}", "--resume_from_checkpoint '{resume}'"),
    ),
    "jax": _Framework(
        "The program restores step HOLDFAST_RESUME_STEP of its CheckpointManager.", torchrun=False
    ),
}


def _context(values: Mapping[str, str]) -> Mapping[str, object]:
    framework = _FRAMEWORKS[values["framework"]]
    folder = values["checkpoints"]
    return {
        "about": framework.about,
        "torchrun": framework.torchrun,
        "arguments": [text.replace("{checkpoints}", folder) for text in framework.arguments],
    }


SCRIPT = Document(
    about="a batch script that resumes after a node fails",
    package=PACKAGE,
    template="job.sbatch.j2",
    values={
        "command": Value(r"[^\n]+", "python train.py", "framework=srun: what srun starts"),
        "checkpoints": Value(PATH, "/mnt/training/checkpoints", "the folder that it saves to"),
        "name": Value(r"[\w.-]+", "train", "the job's name"),
        "nodes": Value(NUMBER, "2", "--nodes"),
        "tasks_per_node": Value(NUMBER, "8", "--ntasks-per-node, where srun starts the ranks"),
        "gpus_per_node": Value(NUMBER, "8", "--gpus-per-node"),
        "output": Value(
            JOB_PATH, "/mnt/training/%x-%j.out", "the job's log, on a shared file system"
        ),
        "framework": Value("|".join(_FRAMEWORKS), "srun", "what starts the program's ranks"),
        "program": Value(r"[^\n]+", "train.py", "other frameworks: the program and its arguments"),
    },
    context=_context,
)

"""A batch script that survives bad nodes."""

from __future__ import annotations

from holdfast.document import JOB_PATH, NUMBER, PATH, Document, Value
from slurm_hooks.deploy import PACKAGE

SCRIPT = Document(
    about="a batch script that resumes after a node fails",
    package=PACKAGE,
    template="job.sbatch.j2",
    values={
        "command": Value(r"[^\n]+", "python train.py", "what srun starts"),
        "checkpoints": Value(PATH, "/mnt/training/checkpoints", "the folder that it saves to"),
        "name": Value(r"[\w.-]+", "train", "the job's name"),
        "nodes": Value(NUMBER, "2", "--nodes"),
        "tasks_per_node": Value(NUMBER, "8", "--ntasks-per-node"),
        "gpus_per_node": Value(NUMBER, "8", "--gpus-per-node"),
        "output": Value(
            JOB_PATH, "/mnt/training/%x-%j.out", "the job's log, on a shared file system"
        ),
    },
)

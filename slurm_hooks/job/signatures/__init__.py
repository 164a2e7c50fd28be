"""The failure catalogue: patterns of log lines, and what each means for the failed job.

Each pattern is tested on an example (tests/data/signatures.tsv). To add one, add a row to one of the
modules below, an example to that file, and the phrases that each matching line contains to
diagnosis/phrases.py.
"""

from __future__ import annotations

from slurm_hooks.job.signatures import (
    collectives,
    cuda,
    frameworks,
    kernel,
    processes,
    program,
    resources,
    scheduler,
)
from slurm_hooks.job.signatures.row import (
    TASK_FAILED,
    Kind,
    Retry,
    Signature,
    Suspect,
    Weight,
)

__all__ = ["SIGNATURES", "TASK_FAILED", "Kind", "Retry", "Signature", "Suspect", "Weight"]

SIGNATURES: tuple[Signature, ...] = (
    *kernel.ROWS,
    *cuda.ROWS,
    *collectives.ROWS,
    *processes.ROWS,
    *resources.ROWS,
    *program.ROWS,
    *frameworks.ROWS,
    *scheduler.ROWS,
)
"""In the order in which they are tried. A line gets the first row that matches, cascades last."""

"""The failure catalogue: what a line of a log says about why a job failed.

Every pattern is our own; each is tested on a line that was seen (tests/data/signatures.tsv). Adding
one means adding a row to one of the modules below and its example to that file.
"""

from __future__ import annotations

from slurm_hooks.job.signatures import (
    collectives,
    cuda,
    frameworks,
    kernel,
    program,
    resources,
    scheduler,
)
from slurm_hooks.job.signatures.row import Kind, Retry, Signature, Suspect

__all__ = ["SIGNATURES", "Kind", "Retry", "Signature", "Suspect"]

SIGNATURES: tuple[Signature, ...] = (
    *kernel.ROWS,
    *cuda.ROWS,
    *collectives.ROWS,
    *resources.ROWS,
    *program.ROWS,
    *frameworks.ROWS,
    *scheduler.ROWS,
)
"""In the order in which they are tried; a line takes the first that fits and is no cascade."""

"""Writes what befell a job into its AdminComment. Runs only inside a contained worker.

The agents of all nodes of a job write the same comment, so each reads it, adds its own entries and
looks again whether they stayed. Somebody else's text is never overwritten.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast import incidents
from holdfast.errors import Refused
from holdfast.incidents import Incident
from holdfast.slurm.client import SlurmJob

_TRIES = 4
_PAUSE_S = 0.05


class CommentClient(Protocol):
    """What is asked of Slurm. Every call is bounded and raises CommandError."""

    def job(self, job_id: int) -> SlurmJob | None: ...
    def admin_comment(self, job: SlurmJob, text: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentRequest:
    """Ask to add these entries to the job's comment."""

    job: int
    entries: tuple[Incident, ...]


def open_desk(slurm: CommentClient) -> Callable[[Any], Iterator[Any]]:
    """Answers a CommentRequest with one line about what was done."""

    def serve(request: Any) -> Iterator[str]:
        if not isinstance(request, CommentRequest):
            raise TypeError(f"expected CommentRequest, got {request!r}")
        yield add(slurm, request)

    return serve


def add(
    slurm: CommentClient, request: CommentRequest, sleep: Callable[[float], None] = time.sleep
) -> str:
    """Adds the entries; a line for the log. Raises CommandError where Slurm does not answer."""
    for tries in range(_TRIES):
        job = slurm.job(request.job)
        if job is None:
            return "Slurm no longer knows the job"
        if not incidents.may_write(job.admin_comment):
            return "its AdminComment is somebody else's, left alone"
        there = incidents.parse(job.admin_comment)
        text = incidents.render(incidents.merge(there, request.entries))
        if text == job.admin_comment.strip():
            return "told" if tries else "already told"
        try:
            slurm.admin_comment(job, text)
        except Refused as error:
            if "finished" in error.output:
                return "the job has ended: told in its report alone"
            return f"not taken by Slurm: {error.output.strip() or error.problem}"
        sleep(_PAUSE_S * (tries + 1))
    return "told, but another node's agent writes at the same time"

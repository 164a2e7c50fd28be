"""Writes a job's incidents into its AdminComment. Runs only inside a contained worker.

The agents of all nodes of a job write the same comment, so each reads it, adds its own incidents,
and reads it again to see whether they are still there. A comment that is not Holdfast's is never
overwritten.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.errors import Refused
from holdfast.records import incidents
from holdfast.records.incidents import Incident
from holdfast.slurm.client import SlurmJob
from slurm_hooks.agent.job_report.comment_result import ALREADY, NOT_CONFIRMED, WRITTEN

_TRIES = 4
_PAUSE_S = 0.05


class CommentClient(Protocol):
    """The Slurm calls used here. Every call has a time limit and may raise CommandError."""

    def job(self, job_id: int) -> SlurmJob | None: ...
    def admin_comment(self, job: SlurmJob, text: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentRequest:
    """A request to add these incidents to the job's comment."""

    job: int
    entries: tuple[Incident, ...]


def open_comments(slurm: CommentClient) -> Callable[[Any], Iterator[Any]]:
    """Answers a CommentRequest with one line about the result."""

    def serve(request: Any) -> Iterator[str]:
        if not isinstance(request, CommentRequest):
            raise TypeError(f"expected CommentRequest, got {request!r}")
        yield add(slurm, request)

    return serve


def add(
    slurm: CommentClient, request: CommentRequest, sleep: Callable[[float], None] = time.sleep
) -> str:
    """Adds the incidents; returns a line for the log. Raises CommandError if Slurm does not answer."""
    for tries in range(_TRIES):
        job = slurm.job(request.job)
        if job is None:
            return "Slurm no longer knows the job"
        if not incidents.may_write(job.admin_comment):
            return "not written: its AdminComment is not Holdfast's"
        there = incidents.parse(job.admin_comment)
        journal = incidents.journal_in(job.admin_comment)
        text = incidents.render(incidents.merge(there, request.entries), journal)
        if text == job.admin_comment.strip():
            return WRITTEN if tries else ALREADY
        try:
            slurm.admin_comment(job, text)
        except Refused as error:
            if "finished" in error.output:
                return "not written: the job has ended; its report has the incidents"
            return f"refused by Slurm: {error.output.strip() or error.problem}"
        sleep(_PAUSE_S * (tries + 1))
    return NOT_CONFIRMED

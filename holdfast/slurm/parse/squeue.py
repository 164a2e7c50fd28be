"""Jobs in the output of ``squeue``."""

from __future__ import annotations

from holdfast.slurm.client import QueuedJob, RunningJob
from holdfast.slurm.parse.values import FIELD, RECORD, ParseError, epoch


def queue(text: str, mark: str) -> list[QueuedJob]:
    """The rows of ``commands.queue(mark)``. Users choose the names, which may contain line breaks and control
    characters. ``mark`` follows each separator: random, so that no name contains a row.
    """
    found = []
    for record in text.split(f"{RECORD}{mark}\n"):
        fields = record.split(f"{FIELD}{mark}", 5)
        if len(fields) == 6 and fields[3].isdecimal():
            job, state, reason, restarts, user, name = fields
            found.append(
                QueuedJob(
                    job=job,
                    state=state,
                    state_reason=reason,
                    restarts=int(restarts),
                    user=user,
                    name=name,
                )
            )
    return found


def running_jobs(text: str) -> list[RunningJob]:
    """The output of ``commands.running_jobs``."""
    jobs = []
    for line in text.splitlines():
        number, host, start = [*line.split(), "", "", ""][:3]
        start_at = epoch(start) if start.isdigit() else None
        if not number.isdigit() or start_at is None:
            raise ParseError(f"not a job of squeue: {line[:80]!r}")
        jobs.append(RunningJob(job_id=int(number), batch_host=host, start_at=start_at))
    return jobs

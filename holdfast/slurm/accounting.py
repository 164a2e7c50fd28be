"""Accounting: a node's past drains (``sacctmgr show event``), and a job that slurmctld no longer has
(``sacct``). Seen on 24.11.5 and 26.05.5.

slurmctld sends each drain to slurmdbd when it is set, including one that a later write replaces. Of several
in one second only the last one is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from holdfast.policy.ownership import PastDrain
from holdfast.slurm.parse import epoch
from holdfast.vocabulary import SlurmName

_FIELDS = "TimeStart,TimeEnd,State,User,Reason"
# A reason may contain line breaks and bars, so it is the last field; a row begins with its two times.
_BOOKKEEPING = "node-update"
"""The reason that slurmdbd itself writes when a node's instance or other facts change."""
_ROW = re.compile(r"^([0-9]+)\|([0-9]+|Unknown)\|([^|\n]*)\|([^|\n]*)\|", re.MULTILINE)


_JOB_FIELDS = (
    "JobIDRaw",
    "User",
    "State",
    "ExitCode",
    "NodeList",
    "AdminComment",
    "WorkDir",
    "JobName",
)
"""The user chooses the last two, so they come last."""
_SEPARATOR = "\x1f"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastJob:
    """The last run of a job in accounting. ``nodes`` is a hostlist."""

    job_id: int
    user: str
    state: str
    exit_code: str
    nodes: str
    admin_comment: str
    work_dir: str
    name: str


def job_argv(job: str) -> list[str]:
    """``job``: a number, or an array task such as ``1234_5``."""
    return [
        "sacct", "--noheader", "--allocations", "--parsable2", f"--delimiter={_SEPARATOR}",
        f"--jobs={job}", f"--format={','.join(_JOB_FIELDS)}",
    ]  # fmt: skip


def past_job(text: str) -> PastJob | None:
    """The job in the output of ``sacct``; None: accounting has none."""
    for line in text.split("\n"):
        row = line.split(_SEPARATOR, len(_JOB_FIELDS) - 1)
        if len(row) == len(_JOB_FIELDS) and row[0].isascii() and row[0].isdigit():
            return PastJob(
                job_id=int(row[0]),
                user=row[1],
                state=row[2],
                exit_code=row[3],
                nodes="" if row[4] == "None assigned" else row[4],
                admin_comment=row[5],
                work_dir=row[6],
                name=row[7],
            )
    return None


def argv(name: SlurmName, since: datetime) -> list[str]:
    return [
        "sacctmgr", "--noheader", "--parsable2", "show", "event", f"nodes={name}",
        f"start=uts{int(since.timestamp())}", f"format={_FIELDS}",
    ]  # fmt: skip


def past_drains(text: str) -> Iterator[PastDrain]:
    """The events in which the node had the DRAIN flag, in the order of the text."""
    rows = list(_ROW.finditer(text))
    ends = [row.start() for row in rows[1:]] + [len(text)]
    for row, end in zip(rows, ends, strict=False):
        start_at = epoch(row[1])
        reason = text[row.end() : end].removesuffix("\n")
        if start_at is None or "DRAIN" not in row[3] or reason == _BOOKKEEPING:
            continue
        yield PastDrain(
            start_at=start_at,
            end_at=epoch(row[2]),
            user=row[4],
            reason=reason,
            replaced=any(other[1] == row[2] for other in rows if other is not row),
        )

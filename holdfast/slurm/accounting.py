"""Accounting: a node's past drains (``sacctmgr show event``), and a job that slurmctld no longer has
(``sacct``). Seen on 24.11.5 and 26.05.5.

slurmctld sends each drain to slurmdbd when it is set, including one that a later write replaces. Of several
in one second only the last one is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from holdfast.policy.budget import KUBE_CORDON
from holdfast.policy.ownership import PastDrain
from holdfast.reason import Reason
from holdfast.records import incidents
from holdfast.slurm.parse.values import epoch
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
    "JobIDRaw",
)
"""The number comes last again, since the user chooses the name: the line break after the number ends the row."""
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


def job_argv(job: str, mark: str = "") -> list[str]:
    """``job``: a number, or an array task such as ``1234_5``. ``mark``: as for ``past_job``."""
    return [
        "sacct", "--noheader", "--allocations", "--parsable2", f"--delimiter={_SEPARATOR}{mark}",
        f"--jobs={job}", f"--format={','.join(_JOB_FIELDS)}",
    ]  # fmt: skip


def past_job(text: str, mark: str) -> PastJob | None:
    """The job in the output of ``sacct``; None: accounting has none.

    The working folder and the name may contain line breaks and control characters. ``mark`` follows each
    separator: random, so that neither contains a field.
    """
    row = text.split(f"{_SEPARATOR}{mark}", len(_JOB_FIELDS) - 1)
    number = row[0]
    complete = len(row) == len(_JOB_FIELDS) and row[-1].partition("\n")[0] == number
    if not complete or not (number.isascii() and number.isdigit()):
        return None
    return PastJob(
        job_id=int(number),
        user=row[1],
        state=row[2],
        exit_code=row[3],
        nodes="" if row[4] == "None assigned" else row[4],
        admin_comment=row[5],
        work_dir=row[6],
        name=row[7],
    )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """The runs of one job. ``waited_s``: the time between the end of a run and the start of the next one,
    together; ``ended_at``: the end of the last run (epoch s; None: it runs). ``code``: of the newest incident.
    """

    runs: int
    waited_s: float
    ended_at: float | None
    code: str = ""


_RUN_FIELDS = ("JobIDRaw", "Start", "End", "AdminComment")


def runs_argv(jobs: Sequence[str]) -> list[str]:
    """All runs of these jobs; ``sacct`` shows only the last one otherwise."""
    return [
        "sacct", "--noheader", "--allocations", "--duplicates", "--parsable2",
        f"--delimiter={_SEPARATOR}", f"--jobs={','.join(jobs)}", f"--format={','.join(_RUN_FIELDS)}",
    ]  # fmt: skip


def restarts(text: str) -> dict[str, Restarts]:
    """By the job's number. Runs that never started (pending) do not count."""
    runs: dict[str, list[tuple[float, float | None, str]]] = {}
    for line in text.split("\n"):
        row = line.split(_SEPARATOR, len(_RUN_FIELDS) - 1)
        start = epoch(row[1]) if len(row) == len(_RUN_FIELDS) else None
        if start is not None:
            end = epoch(row[2])
            runs.setdefault(row[0], []).append(
                (start.timestamp(), end.timestamp() if end else None, row[3])
            )
    return {job: _restarts(sorted(rows, key=lambda row: row[0])) for job, rows in runs.items()}


def _restarts(rows: Sequence[tuple[float, float | None, str]]) -> Restarts:
    waited_s = sum(max(0.0, then[0] - (now[1] or then[0])) for now, then in pairwise(rows))
    seen = [entry for _, _, comment in rows for entry in incidents.parse(comment)]
    seen = [entry for entry in seen if entry.code != incidents.NODE_TESTED]  # no incident
    newest = max(seen, key=lambda entry: entry.at, default=None)
    return Restarts(
        runs=len(rows),
        waited_s=waited_s,
        ended_at=rows[-1][1],
        code=newest.code if newest else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """How often one node left service. ``reason`` and ``at`` (epoch s) of the last time."""

    count: int
    reason: str
    at: float


_FAILURES = "NodeName,TimeStart,TimeEnd,State,User,Reason"
_FAILURE_ROW = re.compile(
    r"^([^|\n]+)\|([0-9]+)\|(?:[0-9]+|Unknown)\|([^|\n]*)\|[^|\n]*\|", re.MULTILINE
)
_BURST_S = 180.0
"""One failure leads to several events: NOT_RESPONDING, DOWN, the drain, a new reason."""


def failures_argv(since: datetime) -> list[str]:
    return [
        "sacctmgr", "--noheader", "--parsable2", "show", "event", "event=node",
        f"start=uts{int(since.timestamp())}", f"format={_FAILURES}",
    ]  # fmt: skip


def failures(text: str) -> dict[str, Failures]:
    """By node: drains by Holdfast for a fault, and DOWN; a person's drain is no failure."""
    rows = list(_FAILURE_ROW.finditer(text))
    ends = [row.start() for row in rows[1:]] + [len(text)]
    seen: dict[str, list[tuple[float, str]]] = {}
    for row, end in zip(rows, ends, strict=False):
        reason = text[row.end() : end].removesuffix("\n")
        parsed = Reason.parse(reason)
        fault = parsed is not None and parsed.code != KUBE_CORDON
        if fault or (row[3].startswith("DOWN") and reason != _BOOKKEEPING):
            seen.setdefault(row[1], []).append((float(row[2]), reason))
    return {name: _failures(sorted(rows)) for name, rows in seen.items()}


def _failures(rows: Sequence[tuple[float, str]]) -> Failures:
    count, last = 0, float("-inf")
    for at, _ in rows:
        count += at - last > _BURST_S
        last = at
    return Failures(count=count, reason=rows[-1][1], at=rows[-1][0])

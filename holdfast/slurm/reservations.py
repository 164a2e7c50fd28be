"""Maintenance reservations and jobs inside them, with which active checks keep users' jobs off a node.

Facts that shape this module (seen on 24.11.5 and 26.05.5):

* A reservation keeps other jobs off its nodes from the moment of its creation, but the nodes show
  it (RESERVED, MAINTENANCE, its name) only up to three seconds later, and then drained nodes too.
* A drained node runs no job, not even one in its reservation: it has to be undrained for the test.
* ``scontrol delete`` reports "in use" as long as a job of the reservation is running or completing.
* The JSON of 24.11 leaves a reservation's comment out, so reservations are read as text.
* ``Duration=UNLIMITED`` means a year.
* ``srun`` inside a job starts a step of that job: SLURM_* variables of this process are not passed on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from holdfast.adapters.command import Completed, complete
from holdfast.errors import CommandError, Refused
from holdfast.slurm.cli import ENV, SlurmCli
from holdfast.slurm.hostlist import compress, expand, names_in
from holdfast.slurm.parse.values import epoch
from holdfast.vocabulary import SlurmName

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
_FIELD = re.compile(r" (StartTime|EndTime|Nodes|Users|Flags)=(\S*)")
_COMMENT = re.compile(r" Comment=(.*?)(?= [A-Z][A-Za-z]*=|$)")
_GONE = re.compile(r"requested reservation is invalid|reservation \S+ not found", re.IGNORECASE)
_IN_USE = re.compile(r"reservation is in use", re.IGNORECASE)
_EXISTS = re.compile(r"duplicate reservation name", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """One reservation as slurmctld shows it; ``nodes`` expanded, times in UTC."""

    name: str
    nodes: tuple[SlurmName, ...]
    comment: str = ""
    start_at: datetime | None = None
    end_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TestJob:
    """A job to run in a reservation, exclusively on all of its nodes.

    ``time_limit_s`` is Slurm's limit, ``start_s`` the longest wait for its start. ``cpus`` and
    ``gpus`` are requested on each node; 0: not requested. ``mpi`` as in ``srun --mpi``.
    """

    __test__ = False  # not a test class for pytest

    name: str
    reservation: str
    nodes: tuple[SlurmName, ...]
    argv: tuple[str, ...]
    time_limit_s: float
    start_s: float = 60.0
    tasks_per_node: int = 1
    cpus: int = 0
    gpus: int = 0
    partition: str = ""
    mpi: str = "none"


def reserve_argv(name: str, nodes: Sequence[str], comment: str, minutes: int | None) -> list[str]:
    """MAINT: no user's job, and the nodes show MAINTENANCE. IGNORE_JOBS: also where a job still runs."""
    duration = "UNLIMITED" if minutes is None else str(minutes)
    return [
        "scontrol", "create", "reservation", f"ReservationName={name}",
        f"Nodes={compress(nodes)}", "Users=root", "StartTime=now", f"Duration={duration}",
        "Flags=MAINT,IGNORE_JOBS", f"Comment={comment}",
    ]  # fmt: skip


def keep_free_argv(name: str, nodes: Sequence[str], comment: str) -> list[str]:
    """A minute is the shortest. No MAINT: the nodes are in service, and their jobs go on."""
    return [
        "scontrol", "create", "reservation", f"ReservationName={name}",
        f"Nodes={compress(nodes)}", "Users=root", "StartTime=now", "Duration=1",
        "Flags=IGNORE_JOBS", f"Comment={comment}",
    ]  # fmt: skip


def job_argv(job: TestJob) -> list[str]:
    """``srun`` that allocates whole nodes, runs the task on each, and prints the tasks' output."""
    minutes = max(1, -(-int(job.time_limit_s) // 60))
    words = [
        "srun", f"--reservation={job.reservation}", f"--nodelist={compress(job.nodes)}",
        f"--nodes={len(job.nodes)}", f"--ntasks-per-node={job.tasks_per_node}", "--exclusive",
        "--mem=0", f"--time={minutes}", f"--immediate={max(1, int(job.start_s))}",
        f"--job-name={job.name}", "--comment=holdfast active check", "--input=none", "--chdir=/",
        f"--mpi={job.mpi}", "--kill-on-bad-exit=0",
    ]  # fmt: skip
    if job.cpus:
        words.append(f"--cpus-per-task={max(1, job.cpus // job.tasks_per_node)}")
    if job.gpus:
        words.append(f"--gres=gpu:{job.gpus}")
    if job.partition:
        words.append(f"--partition={job.partition}")
    return [*words, *job.argv]


def parse_reservations(text: str) -> list[Reservation]:
    """``scontrol show reservation -o`` under ``SLURM_TIME_FORMAT=%s``. Other lines ("No reservations in
    the system") are ignored.
    """
    found = []
    for line in text.splitlines():
        if not line.startswith("ReservationName="):
            continue
        name = line.split()[0].partition("=")[2]
        fields = dict(_FIELD.findall(line))
        comment = _COMMENT.search(line)
        nodes = fields.get("Nodes", "")
        found.append(
            Reservation(
                name=name,
                nodes=tuple(SlurmName(n) for n in expand(nodes)) if nodes != "(null)" else (),
                comment=comment[1] if comment and comment[1] != "(null)" else "",
                start_at=epoch(fields.get("StartTime")),
                end_at=epoch(fields.get("EndTime")),
            )
        )
    return found


class SlurmMaintenance(SlurmCli):
    """``SlurmCli`` with reservations and jobs inside them. Same errors."""

    def reservations(self, prefix: str = "") -> list[Reservation]:
        """All reservations whose name begins with ``prefix``."""
        found = parse_reservations(self._run(["scontrol", "show", "reservation", "--oneliner"]))
        return [reservation for reservation in found if reservation.name.startswith(prefix)]

    def reserve(
        self, name: str, nodes: Sequence[SlurmName], comment: str, *, minutes: int | None
    ) -> bool:
        """Reserve ``nodes`` for root for ``minutes`` (None: a year). False: the name is taken."""
        return self._create(
            name, reserve_argv(name, self._checked(nodes, some=True), comment, minutes)
        )

    def keep_free(self, name: str, nodes: Sequence[SlurmName], comment: str) -> bool:
        """Keep new jobs off ``nodes`` for a minute, also while jobs run there. False: the name is taken."""
        return self._create(name, keep_free_argv(name, self._checked(nodes, some=True), comment))

    def _create(self, name: str, argv: Sequence[str]) -> bool:
        if not _NAME.fullmatch(name):
            raise Refused(["scontrol"], f"not a reservation name: {name!r}")
        try:
            self._run(argv)
        except Refused as error:
            if _EXISTS.search(error.output):
                return False
            raise
        return True

    def unreserve(self, name: str) -> bool:
        """Delete the reservation. True: it does not exist any more. False: a job in it has not ended yet."""
        try:
            self._run(["scontrol", "delete", f"ReservationName={name}"])
        except Refused as error:
            if _IN_USE.search(error.output):
                return False
            if not _GONE.search(error.output):
                raise
        return True

    def excluded_nodes(self) -> dict[SlurmName, set[int]]:
        """The nodes that jobs which have not ended exclude, each with those jobs."""
        found: dict[SlurmName, set[int]] = {}
        for line in self._run(["squeue", "--all", "--noheader", "--format=%A %x"]).splitlines():
            job, _, nodes = line.strip().partition(" ")
            if job.isdecimal() and nodes.strip() not in ("", "(null)"):
                for name in names_in(nodes.strip()):
                    found.setdefault(SlurmName(name), set()).add(int(job))
        return found

    def cancel_in(self, reservation: str) -> None:
        """Cancel every job of the reservation, if there is one."""
        if not _NAME.fullmatch(reservation):
            raise Refused(["scancel"], f"not a reservation name: {reservation!r}")
        try:
            self._run(["scancel", f"--reservation={reservation}"])
        except Refused as error:
            if not _GONE.search(error.output):
                raise

    def run_job(self, job: TestJob, *, timeout_s: float) -> Completed:
        """Run the job until it ends. Raises ``Unavailable`` after ``timeout_s``; the job may still run."""
        self._checked(job.nodes, some=True)
        tool, *rest = job_argv(job)
        full = [str(Path(self._bin) / tool) if self._bin else tool, *rest]
        try:
            return complete(full, timeout_s=timeout_s, env=outside_any_job(os.environ))
        except CommandError as error:
            raise type(error)(full[:1], error.problem, error.output, error.status) from None


def outside_any_job(environ: Mapping[str, str]) -> dict[str, str | None]:
    """The environment of a new job, without the variables of a job that this process runs in."""
    kept = ("SLURM_CONF", "SLURM_JWT")
    removed = {
        key: None for key in environ if key.startswith(("SLURM", "SRUN_")) and key not in kept
    }
    return {**ENV, **removed}

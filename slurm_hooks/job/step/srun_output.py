"""Parses srun's and slurmstepd's messages about failed tasks (signatures L03 to L05).

Wording of Slurm 24.11 to 26.05, src/srun/libsrun/task_state.c and launch.c:
``srun: error: worker-7: tasks 56-58: Killed``, ``srun: Terminating StepId=12.0``; and of
src/slurmd/slurmstepd/req.c: ``error: *** STEP 12.0 ON worker-7 CANCELLED AT 2026-11-21T22:17:25 ***``,
26.05 with the cause: ``… DUE to SIGNAL Terminated ***``, ``… DUE TO TASK FAILURE ***``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TASK_FAILURE = re.compile(
    r"srun: error: (?P<host>[\w.\[\],-]+): tasks? (?P<tasks>[\d,\-\[\]]+): "
    r"(?P<how>Killed|Terminated|Aborted|Segmentation fault|Bus error|Floating point exception"
    r"|Illegal instruction|Out Of Memory|Exited with exit code (?P<code>\d+)|[A-Z][\w ]+?)"
    r"(?P<core> \(core dumped\))?\s*$"
)
_TERMINATING = re.compile(r"srun: Terminating StepId=[\d_+]+\.(?P<step>\d+)")
NODE_FAILURE = "Node failure"
_NODE_FAILURE = re.compile(r"srun: error: Node failure on (?P<nodes>\S+)")

_CANCELLED = re.compile(
    r"error: \*\*\* STEP \d+\.(?P<step>[\w+]+) ON \S+ CANCELLED AT "
    r"[^*]*?(?: DUE (?P<cause>to SIGNAL|TO [A-Z]+)[^*]*)?\*\*\*"
)

_ABORTED_ITSELF = re.compile(
    r"MPI_ABORT was invoked|[Aa]pplication called MPI_Abort"
    r"|error: +mpi/pmix\S* .*Error handler invoked"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailure:
    """One line of srun about failed tasks. ``tasks`` and ``host`` may be lists in Slurm's notation.
    ``ending``: the step was being ended already, so they may have been told to exit."""

    host: str
    tasks: str
    how: str
    code: int | None
    at: float
    ending: bool = False

    def __str__(self) -> str:
        who = f"task {self.tasks} on {self.host}" if self.tasks else self.host
        return f"{who}: {self.how}"


def task_failure_in(line: str, at: float) -> TaskFailure | None:
    """The task failure that a line reports, seen at ``at``; ``None`` for any other line."""
    match = _TASK_FAILURE.search(line)
    if match:
        code = int(match["code"]) if match["code"] else None
        return TaskFailure(
            host=match["host"], tasks=match["tasks"], how=match["how"], code=code, at=at
        )
    lost = _NODE_FAILURE.search(line)
    if lost:
        return TaskFailure(host=lost["nodes"], tasks="", how=NODE_FAILURE, code=None, at=at)
    return None


def cancelled_step_in(line: str, *, task_failed_before: bool) -> str:
    """The number of the step that a user cancelled or signalled (``scancel JOB.STEP``, ``scancel -s
    TERM JOB``); empty for any other line.

    srun also cancels a step whose task has failed. 26.05 names that cause; 24.11 does not, so its
    line does not count after a task's failure (``task_failed_before``), unless srun was asked to
    abort the step before that ("Job step aborted").
    """
    match = _CANCELLED.search(line)
    if match is None:
        return ""
    signalled = match["cause"] == "to SIGNAL"
    return match["step"] if signalled or not (match["cause"] or task_failed_before) else ""


def aborts_itself(line: str) -> bool:
    """True for a line which says that the program has Slurm end its step: MPI_Abort, or a process of it
    that died without MPI_Finalize (PMIx). Slurm then prints what it prints after ``scancel JOB.STEP``.
    """
    return ("MPI_A" in line or "mpi/pmix" in line) and bool(_ABORTED_ITSELF.search(line))


def ended_step_in(line: str) -> str:
    """The number of the step that srun reports it is ending; empty for any other line."""
    match = _TERMINATING.search(line)
    return match["step"] if match else ""

"""What srun and slurmstepd say on standard error about dying tasks (recovery.md, rows L03 to L05).

Wording of Slurm 24.11 to 26.05, src/srun/libsrun/task_state.c and launch.c:
``srun: error: worker-7: tasks 56-58: Killed``, ``srun: Terminating StepId=12.0``; and of
src/slurmd/slurmstepd/req.c: ``error: *** STEP 12.0 ON worker-7 CANCELLED AT 2026-11-21T22:17:25 ***``,
26.05 with the cause: ``… DUE to SIGNAL Terminated ***``, ``… DUE TO TASK FAILURE ***``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_DEATH = re.compile(
    r"srun: error: (?P<host>[\w.\[\],-]+): tasks? (?P<tasks>[\d,\-\[\]]+): "
    r"(?P<how>Killed|Terminated|Aborted|Segmentation fault|Bus error|Floating point exception"
    r"|Illegal instruction|Out Of Memory|Exited with exit code (?P<code>\d+)|[A-Z][\w ]+?)"
    r"(?P<core> \(core dumped\))?\s*$"
)
_TERMINATING = re.compile(r"srun: Terminating StepId=[\d_+]+\.(?P<step>\d+)")
_NODE_FAILURE = re.compile(r"srun: error: Node failure on (?P<nodes>\S+)")

_CANCELLED = re.compile(
    r"error: \*\*\* STEP \d+\.(?P<step>[\w+]+) ON \S+ CANCELLED AT "
    r"[^*]*?(?: DUE (?P<cause>to SIGNAL|TO [A-Z]+)[^*]*)?\*\*\*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDeath:
    """One of srun's lines about tasks that ended badly; ``tasks`` and ``host`` may be lists in
    Slurm's form.
    """

    host: str
    tasks: str
    how: str
    code: int | None
    at: float

    def __str__(self) -> str:
        who = f"task {self.tasks} on {self.host}" if self.tasks else self.host
        return f"{who}: {self.how}"


def death_in(line: str, at: float) -> TaskDeath | None:
    """The death that a line tells of, seen at ``at``; ``None`` for any other line."""
    match = _DEATH.search(line)
    if match:
        code = int(match["code"]) if match["code"] else None
        return TaskDeath(
            host=match["host"], tasks=match["tasks"], how=match["how"], code=code, at=at
        )
    lost = _NODE_FAILURE.search(line)
    if lost:
        return TaskDeath(host=lost["nodes"], tasks="", how="Node failure", code=None, at=at)
    return None


def cancelled_step_in(line: str, *, blind: bool) -> str:
    """The number of the step that somebody cancelled or signalled (``scancel JOB.STEP``, ``scancel -s
    TERM JOB``); empty for any other line.

    When a task dies, srun has its step cancelled, too. 26.05 names that cause; 24.11 does not, so
    its line does not count where a task was dead before (``blind``), unless srun itself was told to
    abort the step before that ("Job step aborted").
    """
    match = _CANCELLED.search(line)
    if match is None or not (match["cause"] == "to SIGNAL" or not (match["cause"] or blind)):
        return ""
    return match["step"]


def ended_step_in(line: str) -> str:
    """The number of the step that srun says it is ending; empty for any other line."""
    match = _TERMINATING.search(line)
    return match["step"] if match else ""

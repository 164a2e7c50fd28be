"""What has to be true before an attempt starts: the storage answers, the command has not finished in an
earlier run of the job, and no other job runs with the same checkpoint folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property

from holdfast.errors import CommandError
from holdfast.policy.job.facts import JobDecision, Next
from holdfast.vocabulary import SlurmName
from slurm_hooks.job.checkpoints.find import Choice
from slurm_hooks.job.checkpoints.storage_errors import names_transient
from slurm_hooks.job.finished_runs import finished, key_of, occurrence
from slurm_hooks.job.launcher.inputs import Job, Tools
from slurm_hooks.job.launcher.job_control import JobControl
from slurm_hooks.job.log import say
from slurm_hooks.job.past_attempts import JournalAttempt
from slurm_hooks.job.resume import checkpoint_choice
from slurm_hooks.job.resume.shared_folder import is_undecided, other_job
from slurm_hooks.job.resume.storage_wait import choose_when_readable, wait_until_readable

_SETTLES_S = 10.0
"""How long to wait for a job that started at the same time, until it has a step or has ended."""
_LOOK_S = 0.2


class Preconditions:
    """Of one launcher. ``run``: how many equal commands came before this one in the script."""

    def __init__(
        self, job: Job, tools: Tools, control: JobControl, nodes: Callable[[], Sequence[SlurmName]]
    ) -> None:
        self._job, self._tools, self._control, self._nodes = job, tools, control, nodes
        self._checked = False
        self.run = 0

    @cached_property
    def key(self) -> str:
        """The command, equal in every run of the job."""
        return key_of(self._job.command, self._nodes())

    def storage_error(self) -> str:
        """Waits until the storage answers. The error that remains after half an hour, else empty."""
        journal = self._tools.journal.path
        return wait_until_readable(self._job.checkpoints, journal, self._pause)

    def without_storage(self, error: str) -> JobDecision:
        return JobDecision(next=Next.HOLD, why=f"{self._job.checkpoints}: {error}")

    def is_finished(self) -> bool:
        """True if an earlier run of this job has finished this command of the script."""
        events, restarts = self._tools.journal.events(), self._job.context.restarts
        self.run = occurrence(events, self.key, restarts)
        if self.run >= finished(events, self.key, restarts):
            return False
        say("this command has finished in an earlier run of the job; not run again")
        self._tools.journal.add("skipped", key=self.key, run=self.run, restarts=restarts)
        return True

    def shared(self) -> JobDecision | None:
        """Not to start, because another job runs with the same folder. Looks once."""
        context = self._job.context
        if self._checked:
            return None
        other = self._other_job()
        self._checked = other is None
        if other is None:
            return None
        why = (
            f"job {other} is running with {self._job.checkpoints}, and each would resume from the "
            "other's checkpoints; give each its own folder, as --checkpoints DIR/$SLURM_JOB_ID, in an "
            "array DIR/$SLURM_ARRAY_TASK_ID"
        )
        return JobDecision(next=Next.HOLD if context.restarts else Next.FAIL, why=why)

    def _other_job(self) -> int | None:
        journal, context = self._tools.journal.path, self._job.context
        end = time.monotonic() + _SETTLES_S
        while is_undecided(journal, context) and time.monotonic() < end:
            if not self._pause(_LOOK_S):
                break
        try:
            return self._control.while_silent(
                lambda: other_job(journal, context, self._tools.slurm)
            )
        except CommandError:
            return None

    def choice(self, history: Sequence[JournalAttempt], number: int) -> Choice:
        """The checkpoint for attempt ``number``; waits while a transient error hides a better one."""
        folder, journal = self._job.checkpoints, self._tools.journal
        choice = choose_when_readable(
            lambda: checkpoint_choice.choose(folder, history, journal, number), self._pause
        )
        checkpoint_choice.report(
            choice, folder, f"attempt {number} of job {self._job.context.job_id}"
        )
        return choice

    def _pause(self, seconds: float) -> bool:
        self._control.pause(seconds)
        return not self._tools.signals.terminated


def is_outage(choice: Choice) -> bool:
    """Whether checkpoints cannot be read because the storage does not answer."""
    return any(names_transient(checkpoint.reason) for checkpoint in choice.rejected)

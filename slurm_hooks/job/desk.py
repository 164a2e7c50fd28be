"""What the launcher asks of Slurm for its own job, and the marker that tells the agent of it."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence

from holdfast.errors import CommandError, Unavailable
from slurm_hooks.job import marker as markers
from slurm_hooks.job.attempt import Tools
from slurm_hooks.job.environment import JobContext
from slurm_hooks.job.log import say

_AFTER_REQUEUE_S = 60.0
"""Slurm ends the batch script within KillWait; until then the script must not go on."""


class Desk:
    """Marks, requeues and holds one job."""

    def __init__(self, context: JobContext, tools: Tools) -> None:
        self._context, self._tools = context, tools
        self.deaths = 0
        """How often in a row the launcher of this job died before this one."""

    def mark(self, state: str, exclude: Sequence[str] = ()) -> None:
        """Nothing happens where no agent runs: then Slurm's own requeue delay stays."""
        markers.write(
            self._tools.run_dir,
            markers.Marker(
                job=self._context.job_id,
                restarts=self._context.restarts,
                state=state,
                at=round(time.time(), 3),
                exclude=tuple(exclude),
                deaths=self.deaths,
            ),
        )

    def requeue(self, exclude: Sequence[str]) -> bool:
        """Requeues the job. The marker comes first: Slurm's answer is SIGTERM. False: Slurm said
        no.
        """
        self.mark(markers.REQUEUE, exclude)
        return self._asked("requeue", lambda: self._tools.slurm.requeue(self._context.job_id))

    def hold(self, why: str) -> bool:
        """Requeues the job held."""
        self.mark(markers.FINISHED)
        return self._asked("hold", lambda: self._tools.slurm.hold(self._context.job_id, why))

    def _asked(self, what: str, call: Callable[[], None]) -> bool:
        try:
            self._patiently(call)
        except CommandError as error:
            if _ended_with_us(error):
                return True
            say(f"{what} not taken by Slurm: {error.output.strip() or error.problem}")
            return False
        return True

    def _patiently(self, call: Callable[[], None]) -> None:
        """Asks again while nobody answers. Raises the last error at the end of the patience."""
        end = time.monotonic() + self._tools.config.slurm_patience_s
        pause_s = 1.0
        while True:
            try:
                return call()
            except Unavailable as error:
                if time.monotonic() + pause_s > end or self._tools.signals.told_to_end:
                    raise
                say(f"slurmctld does not answer ({error.problem}); again in {pause_s:g} s")
                self.sleep(pause_s)
                pause_s = min(30.0, pause_s * 2)

    def sleep(self, seconds: float) -> None:
        """Sleeps, and wakes early for a signal."""
        select.select([self._tools.signals.wake_fd], [], [], seconds)
        self._tools.signals.take()

    def pause(self, seconds: float) -> None:
        """Sleeps the whole time unless told to end."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._tools.signals.told_to_end:
            self.sleep(max(0.0, end - time.monotonic()))

    def wait_for_the_end(self) -> None:
        """After a requeue: Slurm's SIGTERM is on its way."""
        self.pause(_AFTER_REQUEUE_S)


def _ended_with_us(error: CommandError) -> bool:
    """Whether a signal ended the command: Slurm's SIGTERM comes to all processes of a job that it
    requeues, and may be there before its answer. If it was another signal, the marker stands, and the
    agent requeues a job that then ends as failed.
    """
    return error.status is not None and error.status < 0

"""What the launcher asks of Slurm for its own job, and the markers that tell the agent of it."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence

from holdfast.errors import CommandError, Unavailable
from slurm_hooks.job import marker as markers
from slurm_hooks.job.agent_socket import AgentLink
from slurm_hooks.job.environment import JobContext
from slurm_hooks.job.launcher.attempt import Tools
from slurm_hooks.job.launcher.log import say

_AFTER_REQUEUE_S = 60.0
"""Slurm ends the batch script within KillWait; until then the script must not go on."""
_BEFORE_REQUEUE_S = 1.0
_AT_END_S = 5.0
"""How long an agent that restarts is waited for: nobody is there to tell it later."""


class JobControl:
    """Marks, requeues and holds one job."""

    def __init__(self, context: JobContext, tools: Tools) -> None:
        self._context, self._tools = context, tools
        self._agent = AgentLink(tools.run_dir)
        self.deaths = 0
        """How often in a row the launcher of this job died before this one."""

    def mark(self, state: str) -> None:
        """Tells the agent that the job runs, or has ended for good. Where no agent runs, Slurm's own
        requeue delay stays."""
        if state != markers.FINISHED:
            self._send(state)
        elif not self._send(state, for_s=_AT_END_S):
            self._end_without_agent()

    def _send(self, state: str, exclude: Sequence[str] = (), for_s: float = 0.0) -> bool:
        marker = markers.Marker(
            job=self._context.job_id,
            restarts=self._context.restarts,
            state=state,
            at=round(time.time(), 3),
            exclude=tuple(exclude),
            deaths=self.deaths,
        )
        return self._agent.send(marker, for_s=for_s)

    def _end_without_agent(self) -> None:
        """An agent that comes back would find that the launcher of this job is gone, and requeue the
        job if it failed: Slurm is told that this must not be."""
        if self._agent.last is None:
            return
        try:
            self._tools.slurm.disable_requeue(self._context.job_id)
        except CommandError as error:
            say(f"not told that this job has ended: agent and Slurm ({error.problem})")

    def requeue(self, exclude: Sequence[str]) -> bool:
        """Requeues the job. The marker comes first: Slurm's answer is SIGTERM. False: Slurm said
        no.
        """
        self._send(markers.REQUEUE, exclude, _BEFORE_REQUEUE_S)
        return self._asked("requeue", lambda: self._tools.slurm.requeue(self._context.job_id))

    def hold(self, why: str) -> bool:
        """Requeues the job held."""
        self._send(markers.FINISHED, for_s=_BEFORE_REQUEUE_S)
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

"""The launcher's requests to Slurm for its own job, and the markers that it sends to the agent."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import TypeVar

from holdfast.errors import CommandError, Unavailable
from holdfast.policy.job.excluded_nodes import Exclusion
from slurm_hooks.job import marker as markers
from slurm_hooks.job.agent_socket import AgentLink
from slurm_hooks.job.environment import JobContext
from slurm_hooks.job.launcher.inputs import Tools
from slurm_hooks.job.log import say
from slurm_hooks.job.outcome.node_faults import JobSnapshot, look_until_answered

T = TypeVar("T")

_AFTER_REQUEUE_S = 60.0
"""Slurm ends the batch script within KillWait. Until then the script must not continue."""
_BEFORE_REQUEUE_S = 1.0
_KEPT_AFTER_S = 0.2
"""An agent needs half of this to keep the job's nodes free; Slurm needs as long to give them to another job."""
_AT_END_S = 5.0
"""How long to wait for an agent that restarts: the launcher exits and cannot retry later."""


class JobControl:
    """Marks, requeues and holds one job."""

    def __init__(self, context: JobContext, tools: Tools) -> None:
        self._context, self._tools = context, tools
        self._agent = AgentLink(tools.run_dir, warn=say)
        self._announced_at: float | None = None
        self.exclusion = Exclusion()
        """How the agent changes the job's ExcNodeList when the job is requeued."""
        self.superseded: Callable[[], bool] = lambda: False
        """Whether a newer attempt has begun, which a request would end."""
        self.replace_nodes = False
        """Whether the job's owner lets other nodes take the place of bad ones that the job names."""
        self.launchers_killed = 0
        """How often in a row the launcher of this job was killed before this one."""

    def mark(self, state: str, *, succeeded: bool = False) -> None:
        """Reports to the agent that the job runs, or has ended for good. Without an agent, Slurm's own
        requeue delay stays."""
        if state != markers.FINISHED:
            self._send(state)
        elif not self._send(state, for_s=_AT_END_S, succeeded=succeeded):
            self._end_without_agent()

    def announce(self) -> None:
        """Tells the agent that a requeue is probable, so that it keeps the job's nodes free from then on."""
        if self._context.node_count > 1 and self._tools.config.keep_nodes:
            self._send(markers.RUNNING, leaving=True)
            self._announced_at = time.monotonic()

    def _send(
        self, state: str, for_s: float = 0.0, *, leaving: bool = False, succeeded: bool = False
    ) -> bool:
        marker = markers.Marker(
            job=self._context.job_id,
            restarts=self._context.restarts,
            state=state,
            at=round(time.time(), 3),
            exclude=self.exclusion.add,
            release=self.exclusion.remove,
            launchers_killed=self.launchers_killed,
            replace_nodes=self.replace_nodes,
            leaving=leaving,
            succeeded=succeeded,
            journal=str(self._tools.journal.path),
        )
        return self._agent.send(marker, for_s=for_s)

    def deliver(self) -> None:
        """Before the launcher of a job exits that Slurm or a person has ended: the agent has to know that the
        job ran, to start it at once if it was requeued."""
        self._agent.flush(_AT_END_S)

    def _end_without_agent(self) -> None:
        """An agent that restarts later would find the launcher gone and requeue the job if it failed.
        Setting Requeue=0 in Slurm prevents that."""
        if self._agent.last is not None:
            self._disable_requeue("cannot report the job's end to the agent or to Slurm")

    def end_expedited(self) -> None:
        """Slurm holds a job that was submitted with ``--requeue=expedite`` and exits with another status
        than 0, unless an epilog fails. With Requeue=0 it ends as FAILED, like any other job."""
        self._disable_requeue("Slurm may hold this job instead of ending it")

    def _disable_requeue(self, otherwise: str) -> None:
        try:
            self.while_silent(
                self._unless_superseded(
                    lambda: self._tools.slurm.disable_requeue(self._context.job_id)
                )
            )
        except CommandError as error:
            say(f"{otherwise} ({error.problem})")

    def requeue(self) -> bool:
        """Requeues the job. The marker comes first, since Slurm answers with SIGTERM. False: Slurm
        refused, or it never answered and no agent has the marker.
        """
        agent_knows = self._send(markers.REQUEUE, _BEFORE_REQUEUE_S)
        if agent_knows and self._context.node_count > 1 and self._tools.config.keep_nodes:
            since = self._announced_at or time.monotonic()
            time.sleep(max(0.0, since + _KEPT_AFTER_S - time.monotonic()))
        slurm, job_id = self._tools.slurm, self._context.job_id
        return self._request(
            "requeue", lambda: slurm.requeue(job_id), self._is_requeued, agent_goes_on=agent_knows
        )

    def hold(self, why: str) -> bool:
        """Requeues and holds the job. False: Slurm refused."""
        self._send(markers.FINISHED, for_s=_BEFORE_REQUEUE_S)
        return self._request("hold", lambda: self._tools.slurm.hold(self._context.job_id, why))

    def _request(
        self,
        what: str,
        call: Callable[[], None],
        is_done: Callable[[], bool] = lambda: False,
        *,
        agent_goes_on: bool = False,
    ) -> bool:
        """``is_done``: an earlier request without an answer was carried out. ``agent_goes_on``: an agent makes
        the same request once slurmctld answers."""
        try:
            self.while_silent(self._unless_superseded(call))
        except Unavailable as error:
            # Slurm's SIGTERM shows that it has carried out the request, and was slow to say so.
            if self._tools.signals.terminated or agent_goes_on:
                return True
            say(f"no answer to the {what}: {error.problem}")
            return False
        except CommandError as error:
            if _ended_by_signal(error) or self.superseded() or is_done():
                return True
            say(f"Slurm refused the {what}: {error.output.strip() or error.problem}")
            return False
        return True

    def _unless_superseded(self, call: Callable[[], None]) -> Callable[[], None]:
        """A newer attempt may begin while slurmctld does not answer."""
        return lambda: None if self.superseded() else call()

    def _is_requeued(self) -> bool:
        """Slurm refuses to requeue a job that it has requeued already."""
        try:
            job = self._tools.slurm.job(self._context.job_id)
        except CommandError:
            return False
        if job is None:
            return False
        return job.restarts > self._context.restarts or "PENDING" in job.state.split("+")

    def while_silent(self, call: Callable[[], T]) -> T:
        """Retries while slurmctld does not answer. Raises the last error after ``slurm_patience_s``."""
        end = time.monotonic() + self._tools.config.slurm_patience_s
        pause_s = 1.0
        while True:
            try:
                return call()
            except Unavailable as error:
                if time.monotonic() + pause_s > end or self._tools.signals.terminated:
                    raise
                say(f"slurmctld does not answer ({error.problem}); retrying in {pause_s:g} s")
                self.sleep(pause_s)
                pause_s = min(30.0, pause_s * 2)

    def answered(self, look: Callable[[], JobSnapshot]) -> JobSnapshot:
        """What ``look`` returns once slurmctld answers; what there is after ``slurm_patience_s``."""
        return look_until_answered(
            look,
            patience_s=self._tools.config.slurm_patience_s,
            clock=time.monotonic,
            sleep=self.sleep,
            stop=lambda: self._tools.signals.terminated,
        )

    def sleep(self, seconds: float) -> None:
        """Sleeps; a signal ends the sleep early."""
        select.select([self._tools.signals.wake_fd], [], [], seconds)
        self._tools.signals.take()

    def pause(self, seconds: float) -> None:
        """Sleeps the whole time unless SIGTERM or SIGINT arrives."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._tools.signals.terminated:
            self.sleep(max(0.0, end - time.monotonic()))

    def wait_for_sigterm(self) -> None:
        """Waits, after a requeue, for Slurm's SIGTERM."""
        self.pause(_AFTER_REQUEUE_S)


def _ended_by_signal(error: CommandError) -> bool:
    """True when a signal ended the command. Slurm sends SIGTERM to all processes of a job that it
    requeues, and the signal may arrive before Slurm's answer. If the signal had another source, the
    marker remains, and the agent requeues the job after it fails.
    """
    return error.status is not None and error.status < 0

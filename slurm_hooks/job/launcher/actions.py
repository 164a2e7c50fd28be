"""Carries out a decision: another attempt here, a requeue, a hold, or the end of the job."""

from __future__ import annotations

from holdfast.policy.job.facts import JobDecision, Next
from slurm_hooks.job import marker as markers
from slurm_hooks.job.launcher.inputs import Job, Tools
from slurm_hooks.job.launcher.job_control import JobControl
from slurm_hooks.job.launcher.notices import Notices
from slurm_hooks.job.launcher.remaining_tasks import RemainingTasks
from slurm_hooks.job.log import say
from slurm_hooks.job.outcome.job_look import JobLook
from slurm_hooks.job.outcome.node_faults import JobSnapshot
from slurm_hooks.job.step.run_step import StepEnd
from slurm_hooks.settings.notify import JobEvent


class Actions:
    """What the launcher does about one job after attempt ``number``."""

    def __init__(
        self, job: Job, tools: Tools, control: JobControl, look: JobLook, notices: Notices
    ) -> None:
        self._job, self._tools, self._control = job, tools, control
        self._look, self._notices = look, notices
        self._remaining = RemainingTasks(job, tools, control)

    def end_tasks(self, number: int, steps: frozenset[str]) -> None:
        """Ends tasks of the attempt at once: see ``RemainingTasks``."""
        self._remaining.end(number, steps)

    def end_now(self, number: int) -> None:
        """Ends all of the attempt at once: see ``RemainingTasks``."""
        self._remaining.end_now(number)

    def superseded(self, number: int, why: str) -> int:
        """A newer attempt has begun elsewhere, which the journal, Slurm and the agents now belong to: this
        launcher exits without a word to any of them."""
        say(f"{why}; this launcher has been cut off, and exits")
        if number:
            self._remaining.end_now(number)
        return 143

    def act(
        self, decision: JobDecision, number: int, code: int, *, tell: bool = True
    ) -> int | None:
        """The exit status of the launcher; None: another attempt starts here. ``tell``: a restart is worth
        a notice, since something has failed.
        """
        if decision.next is Next.RESTART:
            if tell:
                self._notices.tell(JobEvent.RESTARTED, decision.why, number)
            self._remaining.end_leftovers(number)
            self._control.pause(decision.delay_s)
            return 143 if self._tools.signals.terminated else None
        if decision.next in (Next.FAIL, Next.FINISH):
            return self.finish(number, code or 1, decision.why)
        held = decision.next is Next.HOLD
        restarts = self._job.context.restarts
        control = self._control
        added = [] if held else list(control.exclusion.add)
        self._tools.journal.add(
            "requeue", attempt=number, restarts=restarts, held=held, excluded=added
        )
        if control.hold(decision.why) if held else control.requeue():
            if held:
                say(f"the job is held. Once the cause is fixed: scontrol release {self._look.name}")
            if held or tell:
                event = JobEvent.HELD if held else JobEvent.RESTARTED
                self._notices.tell(event, decision.why, number)
            control.wait_for_sigterm()
            return code or 1
        return self.finish(number, code or 1, "Slurm did not accept the request")

    def without_evidence(self, decision: JobDecision, number: int, code: int) -> int | None:
        """For the time limit, a degraded node, and a folder that another job uses: these are no failures."""
        journal, action = self._tools.journal, decision.next.value
        journal.add("decision", attempt=number, action=action, why=decision.why)
        if decision.next is Next.REQUEUE:
            journal.add("continued", attempt=number)
        say(f"decision: {decision.next.value}: {decision.why}")
        return self.act(decision, number, code, tell=False)

    def finish(
        self, number: int, code: int, why: str, *, cancelled: bool = False, succeeded: bool = False
    ) -> int:
        """Ends the job here. ``cancelled``: by a user, so not counted as a failure of the job."""
        if code and not cancelled:
            self._notices.tell(JobEvent.FAILED, why, number)
        self._control.mark(markers.FINISHED, succeeded=succeeded)
        if code and self._look.expedited:
            self._control.end_expedited()
        self._tools.journal.add(
            "finish",
            attempt=number,
            exit_code=code,
            why=why,
            cancelled=cancelled,
            succeeded=succeeded,
        )
        say(f"done: exit code {code}{': ' + why if why else ''}")
        self._notices.finish()
        return code

    def ended_by_others(self, number: int, end: StepEnd, snapshot: JobSnapshot) -> int:
        """The job was cancelled, requeued, preempted or ran out of time: Holdfast does not requeue it.

        While the job itself is still RUNNING the marker becomes ``finished``. Otherwise it stays
        ``running``, so that the agent starts the job at once if Slurm has requeued it.
        """
        state = snapshot.job.state.split("+")[0] if snapshot.job else "unknown"
        why = f"ended by Slurm or a user (job state {state}); not requeued by Holdfast"
        if state == "FAILED":
            # A running launcher's job fails only if its script is gone.
            why = "the batch script was killed (job state FAILED); the node's agent may requeue the job"
        if end.status == 0:
            why += "; the command exited with 0, but the job did not succeed"
        code = end.exit_code or 143
        if state == "RUNNING":
            return self.finish(number, code, why, cancelled=True)
        say(why)
        self._tools.journal.add(
            "finish",
            attempt=number,
            exit_code=code,
            why=why,
            job_state=state if snapshot.job else None,
            cancelled=True,
        )
        self._control.deliver()
        return code

    def cancelled(self, end: StepEnd) -> str:
        """How a user ended the step, in words."""
        if not end.cancelled_step:
            return f"a task was ended by a signal of a user ({end.user_signal})"
        step = f"{self._job.context.job_id}.{end.cancelled_step}"
        return f"step {step} was cancelled or signalled by a user (scancel, --signal)"

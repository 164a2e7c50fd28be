"""One job under ``holdfast run``: attempt, evidence, decision, until the job ends or is requeued."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence

from holdfast.policy.job.facts import JobDecision, Next
from slurm_hooks.job import marker as markers
from slurm_hooks.job.checkpoints.candidate import Checkpoint
from slurm_hooks.job.fence.fence import Fence, Superseded
from slurm_hooks.job.launcher.actions import Actions
from slurm_hooks.job.launcher.decisions import Decisions
from slurm_hooks.job.launcher.inputs import Attempt, Job, Tools
from slurm_hooks.job.launcher.job_control import JobControl
from slurm_hooks.job.launcher.notices import Notices
from slurm_hooks.job.launcher.preconditions import Preconditions, is_outage
from slurm_hooks.job.launcher.step_watch import StepWatch
from slurm_hooks.job.log import say
from slurm_hooks.job.outcome import checkpoints_left, losses
from slurm_hooks.job.outcome.attempt_end import NOT_STARTED, attempt_end
from slurm_hooks.job.outcome.job_look import JobLook
from slurm_hooks.job.outcome.node_faults import (
    look_until_fatal,
)
from slurm_hooks.job.past_attempts import (
    JournalAttempt,
    lost_launchers,
    past,
)
from slurm_hooks.job.progress.failure_evidence import without_abort
from slurm_hooks.job.resume.argument import filled
from slurm_hooks.job.resume.environment import child_environment
from slurm_hooks.job.step.output_reader import Listener
from slurm_hooks.job.step.rank_hosts import rank_count, rank_hosts
from slurm_hooks.job.step.run_step import StepEnd, run_step
from slurm_hooks.job.step.termination import StepPlan


class AttemptLoop:
    """All attempts of one launcher. ``started``: a step was started; ``last_code``: the exit code of
    the last step.
    """

    def __init__(self, job: Job, tools: Tools) -> None:
        self._job, self._tools = job, tools
        self._control = JobControl(job.context, tools)
        self._control.replace_nodes = job.replace_nodes
        self._look = JobLook(job.context, tools.slurm)
        self._before = Preconditions(job, tools, self._control, lambda: self._look.nodes)
        self._notices = Notices(
            job.context.job_id, job.context.gpus, tools.run_dir, tools.notify.told
        )
        self._fence = Fence(job.context, tools.journal, tools.slurm)
        self._control.superseded = lambda: bool(self._fence.superseded(self._number))
        self._number = 0
        self._decisions = Decisions(job, tools, self._control, self._look)
        self._actions = Actions(job, tools, self._control, self._look, self._notices)
        self.started = False
        self.last_code = 0

    def run_to_end(self) -> int:
        """Runs attempts until the job ends here. Returns the exit status for the batch script."""
        if self._job.context.restarts and losses.is_output_overwritten():
            say(
                "the output of earlier runs was overwritten; to keep it, submit with "
                "sbatch --open-mode=append"
            )
        while True:
            try:
                code = self._attempt()
            except Superseded as newer:
                return self._actions.superseded(self._number, str(newer))
            if code is not None:
                return code

    def _attempt(self) -> int | None:
        """Runs one attempt. Returns the exit status, or ``None`` to start the next attempt here."""
        outage = self._before.storage_error()
        if outage:
            return self._without_storage(outage)
        self._fence.check(self._number)
        if not self._number and self._before.is_finished():
            return 0
        history = self._begin()
        self._fence.check(self._number)
        shared = self._before.shared()
        if shared:
            return self._actions.without_evidence(shared, self._number, code=2)
        snapshot = self._look.look()
        self._look.earlier = snapshot.incidents
        if snapshot.faults and not self._decisions.switched_off:
            say(f"not started: bad node in this job: {', '.join(map(str, snapshot.faults))}")
            decision = self._decisions.decide(self._number, snapshot, NOT_STARTED, history)
            return self._actions.act(decision, self._number, code=1)
        self._fence.wait(self._number, self._control.pause)
        if self._tools.signals.terminated:
            return 143
        choice = self._before.choice(history, self._number)
        if choice.unreadable:
            # A start from the beginning might overwrite checkpoints that could not be read.
            if is_outage(choice):
                return self._without_storage("its checkpoints cannot be read")
            return self._actions.finish(self._number, 1, "checkpoints cannot be read")
        argv = filled(self._job.command, choice.chosen, self._job.paths)
        attempt = Attempt(number=self._number, choice=choice, history=history, argv=argv)
        watch = StepWatch(
            self._job,
            self._tools,
            self._look,
            self._notices,
            attempt,
            lambda: self._decisions.switched_off,
        )
        return self._after(self._run_step(attempt, watch), watch, attempt)

    def _without_storage(self, error: str) -> int | None:
        """The storage has not answered for more than half an hour, or the job is ending meanwhile."""
        if self._tools.signals.terminated:
            return 143
        decision = self._before.without_storage(error)
        say(f"decision: {decision.next.value}: {decision.why}")
        return self._actions.act(decision, self._number, code=1)

    def _begin(self) -> list[JournalAttempt]:
        """Records the attempt in journal and marker. Returns the earlier attempts."""
        context, journal = self._job.context, self._tools.journal
        history = past(journal.events())
        self._number = len(history) + 1
        self._control.launchers_killed = lost_launchers(history)
        self._decisions.set_exclusion((), "")
        journal.add(
            "attempt",
            attempt=self._number,
            restarts=context.restarts,
            job_start=context.started_at,
            host=context.host,
            nodes=context.nodes,
            command=list(self._job.command),
            key=self._before.key,
            run=self._before.run,
        )
        if journal.broken:
            say(
                f"journal {journal.path}: {journal.broken}; attempts cannot be recorded, so "
                "job.max_attempts does not apply"
            )
        self._control.mark(markers.RUNNING)
        return history

    def _run_step(self, attempt: Attempt, watch: StepWatch) -> StepEnd:
        argv, choice = attempt.argv, attempt.choice
        journal, config, paths = self._tools.journal, self._tools.config, self._job.paths
        evidence = watch.evidence
        plan = StepPlan(
            argv=argv,
            env=child_environment(
                os.environ, choice, self._number, journal.path, paths, evidence.environment()
            ),
            watch=watch.look,
            end_tasks=lambda steps: self._actions.end_tasks(self._number, steps),
            poll_s=config.poll_s,
            skip_looks=watch.skip_looks,
            end_grace_s=config.end_grace_s,
            rank_hosts=rank_hosts(os.environ, self._look.nodes),
            on_terminated=lambda: journal.add("terminated", attempt=self._number),
            on_started=lambda listener: self._listen(listener, watch),
            evidence=evidence,
            fenced=lambda: self._fence.found,
            end_now=lambda: self._actions.end_now(self._number),
        )
        journal.add("step_start", attempt=self._number, command=shlex.join(argv))
        self.started = True
        try:
            end = watch.hang.ended(evidence.ended(run_step(plan, self._tools.signals)))
        finally:
            self._fence.stop()
        self.last_code = end.exit_code
        self._fence.check(self._number)
        journal.add(
            "step_end",
            attempt=self._number,
            exit_code=end.exit_code,
            status=end.status,
            wall_s=round(end.ended_at - end.started_at, 3),
            how=end.how,
            terminated=end.terminated,
            whole=end.whole,
        )
        return end

    def _listen(self, listener: Listener, watch: StepWatch) -> None:
        watch.listen(listener)
        self._fence.watch(self._number, self._tools.signals.wake)

    def _after(self, end: StepEnd, watch: StepWatch, attempt: Attempt) -> int | None:
        decision = watch.ended(end)
        if decision is not None and not self._look.look().ended_by_slurm:
            return self._actions.without_evidence(decision, self._number, code=end.exit_code)
        if end.status == 0 and not end.ended_why:
            return self._succeeded(end)
        say(f"step ended: {end.how}")
        snapshot = look_until_fatal(
            lambda: self._control.answered(self._look.look_with_incidents),
            wait_s=0.0 if end.terminated else self._tools.config.evidence_wait_s,
            clock=time.monotonic,
            sleep=self._control.sleep,
        )
        if snapshot.ended_by_slurm or self._tools.signals.terminated:
            return self._actions.ended_by_others(self._number, end, snapshot)
        if (end.cancelled_step or end.user_signal) and self._look.are_nodes_healthy(snapshot):
            why = f"{self._actions.cancelled(end)}; not restarted"
            return self._actions.finish(self._number, end.exit_code or 143, why, cancelled=True)
        if watch.proved and end.ended_why == watch.proved:
            journal = self._tools.journal
            journal.add("proved", attempt=self._number, why=watch.proved)
            decision = JobDecision(next=Next.RESTART, why=watch.proved)
            return self._actions.act(decision, self._number, code=end.exit_code, tell=False)
        if snapshot.faults:
            self._control.announce()
        if any(fault.fatal for fault in snapshot.faults or ()):
            end = without_abort(end)
        left = checkpoints_left.left(self._job.checkpoints, attempt.choice)
        nodes = self._look.nodes
        addresses = {node.address: node.name for node in snapshot.nodes if node.address}
        tasks = rank_count(os.environ, nodes, attempt.argv)
        ended = attempt_end(end, left, nodes, tasks=tasks, addresses=addresses)
        if ended.cause:
            say(f"cause: {ended.cause.line.text.strip()[:200]} ({ended.cause.signature.code})")
        self._report_loss(end, left.newest, attempt.history)
        decision = self._decisions.decide(self._number, snapshot, ended, attempt.history)
        return self._actions.act(decision, self._number, code=end.exit_code)

    def _report_loss(
        self, end: StepEnd, newest: Checkpoint | None, history: Sequence[JournalAttempt]
    ) -> None:
        seconds = self._notices.lost_s = losses.lost_s(end, newest)
        if seconds >= losses.MIN_REPORTED_S:
            say(losses.loss_text(seconds, self._job.context.gpus, newest))
        self._tools.journal.add(
            "loss", attempt=self._number, lost_s=round(seconds, 3), gpus=self._job.context.gpus
        )
        fruitless = losses.attempts_without_checkpoint(history, newest)
        if fruitless > 1:
            say(
                f"no checkpoint after {fruitless} attempts: does the command save to "
                f"{self._job.checkpoints}?"
            )

    def _succeeded(self, end: StepEnd) -> int:
        """Exit code 0 is success only if Slurm has not ended the job: in a job that is cancelled,
        requeued or out of time, ranks may ignore SIGTERM, or save and exit with 0."""
        snapshot = self._control.answered(self._look.look)
        if snapshot.ended_by_slurm:
            say(f"step ended: {end.how}")
            return self._actions.ended_by_others(self._number, end, snapshot)
        if snapshot.job is None:
            return self._actions.finish(
                self._number, 0, "job state not known: slurmctld does not answer"
            )
        if end.cancelled_step:
            return self._actions.finish(
                self._number, 0, self._actions.cancelled(end), cancelled=True
            )
        if end.terminated:
            return self._actions.finish(
                self._number, 0, "after a SIGTERM or SIGINT that Holdfast did not send"
            )
        return self._actions.finish(self._number, 0, "", succeeded=True)

"""One job under ``holdfast run``: attempt, evidence, decision, until the job ends or is requeued."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import cached_property

from holdfast.config.kill_switch_files import ALL, is_off
from holdfast.incidents import Incident
from holdfast.policy.job.decision import decide
from holdfast.policy.job.excluded_nodes import exclusion
from holdfast.policy.job.facts import JobDecision, Next
from holdfast.slurm.hostlist import expand, names_in
from holdfast.vocabulary import SlurmName
from slurm_hooks.job import marker as markers
from slurm_hooks.job.checkpoints.candidate import Checkpoint
from slurm_hooks.job.checkpoints.find import Choice
from slurm_hooks.job.launcher import losses, resume
from slurm_hooks.job.launcher.agent_incidents import since, with_incidents
from slurm_hooks.job.launcher.attempt import Job, Tools, child_environment
from slurm_hooks.job.launcher.job_control import JobControl
from slurm_hooks.job.launcher.log import say
from slurm_hooks.job.launcher.lost_nodes import LostNodes
from slurm_hooks.job.launcher.node_faults import (
    JobSnapshot,
    look_until_fatal,
    read_snapshot,
    spare_nodes,
    with_lost,
)
from slurm_hooks.job.launcher.outcome import NOT_STARTED, AttemptEnd, attempt_end, facts
from slurm_hooks.job.launcher.past_attempts import (
    JournalAttempt,
    excluded_nodes,
    lost_launchers,
    past,
)
from slurm_hooks.job.launcher.preconditions import Preconditions, is_outage
from slurm_hooks.job.launcher.remaining_tasks import RemainingTasks
from slurm_hooks.job.launcher.resume_argument import filled
from slurm_hooks.job.launcher.search import Search, next_checkpoint, search
from slurm_hooks.job.launcher.time_limit import TimeLimit
from slurm_hooks.job.step.node_steps import EXTERN, steps_here, steps_on
from slurm_hooks.job.step.rank_hosts import rank_hosts
from slurm_hooks.job.step.run_step import StepEnd, StepPlan, run_step

_QUERY_TIMEOUT_S = 15.0
"""For nodes whose slurmd has restarted to answer."""


class AttemptLoop:
    """All attempts of one launcher. ``started``: a step was started; ``last_code``: the exit code of
    the last step.
    """

    def __init__(self, job: Job, tools: Tools) -> None:
        self._job, self._tools = job, tools
        self._control = JobControl(job.context, tools)
        self._before = Preconditions(job, tools, self._control, lambda: self._nodes)
        self._remaining = RemainingTasks(job, tools, self._control)
        self._number = 0
        self._name = str(job.context.job_id)
        self._earlier_incidents: tuple[Incident, ...] = ()
        job_id = job.context.job_id
        self._lost = LostNodes(
            lambda nodes: steps_on(job_id, nodes, _QUERY_TIMEOUT_S),
            contained=EXTERN in steps_here(job_id),
        )
        self._search = Search(choice=Choice(chosen=None), failed_after_s=0.0)
        self._proved, self._step_began = "", 0.0
        self._limit = TimeLimit(None, resume.Left, tools.signals.send)
        self._expedited = False
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
            code = self._attempt()
            if code is not None:
                return code

    def _attempt(self) -> int | None:
        """Runs one attempt. Returns the exit status, or ``None`` to start the next attempt here."""
        outage = self._before.storage_error()
        if outage:
            return self._without_storage(outage)
        if not self._number and self._before.is_finished():
            return 0
        history = self._begin()
        shared = self._before.shared()
        if shared:
            return self._act(shared, code=2)
        snapshot = self._look()
        self._earlier_incidents = snapshot.incidents
        if snapshot.faults and not self._switched_off:
            say(f"not started: bad node in this job: {', '.join(map(str, snapshot.faults))}")
            return self._act(self._decide(snapshot, NOT_STARTED, history), code=1)
        choice = self._before.choice(history, self._number)
        if choice.unreadable:
            # A start from the beginning might overwrite checkpoints that could not be read.
            if is_outage(choice):
                return self._without_storage("its checkpoints cannot be read")
            return self._finish(1, "checkpoints cannot be read")
        self._search, self._proved = search(choice, history), ""
        self._limit = TimeLimit(
            self._job.before_limit,
            lambda: resume.left(self._job.checkpoints, choice),
            self._tools.signals.send,
        )
        end = self._run_step(choice)
        return self._after(end, choice, history)

    def _without_storage(self, error: str) -> int | None:
        """The storage has not answered for more than half an hour, or the job is ending meanwhile."""
        if self._tools.signals.terminated:
            return 143
        decision = self._before.without_storage(error)
        say(f"decision: {decision.next.value}: {decision.why}")
        return self._act(decision, code=1)

    def _begin(self) -> list[JournalAttempt]:
        """Records the attempt in journal and marker. Returns the earlier attempts."""
        context, journal = self._job.context, self._tools.journal
        history = past(journal.events())
        self._number = len(history) + 1
        self._control.launchers_killed = lost_launchers(history)
        self._set_exclusion((), "")
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

    def _run_step(self, choice: Choice) -> StepEnd:
        journal, config, paths = self._tools.journal, self._tools.config, self._job.paths
        argv = filled(self._job.command, choice.chosen, paths)
        plan = StepPlan(
            argv=argv,
            env=child_environment(os.environ, choice, self._number, journal.path, paths),
            watch=self._watch,
            end_tasks=lambda steps: self._remaining.end(self._number, steps),
            poll_s=config.poll_s,
            end_grace_s=config.end_grace_s,
            rank_hosts=rank_hosts(os.environ, self._nodes),
            on_terminated=lambda: journal.add("terminated", attempt=self._number),
        )
        journal.add("step_start", attempt=self._number, command=shlex.join(argv))
        self.started, self._step_began = True, time.monotonic()
        end = run_step(plan, self._tools.signals)
        self.last_code = end.exit_code
        journal.add(
            "step_end",
            attempt=self._number,
            exit_code=end.exit_code,
            status=end.status,
            wall_s=round(end.ended_at - end.started_at, 3),
            how=end.how,
            terminated=end.terminated,
        )
        return end

    def _watch(self) -> str:
        """Why the step must end now, empty if it may go on. The agents normally end the tasks on a
        bad node; this covers an agent that cannot."""
        snapshot = self._look_with_incidents()
        fatal = [fault for fault in snapshot.faults or () if fault.fatal]
        if self._switched_off:
            return ""
        if not fatal:
            self._proved = self._proved or self._search.proved(time.monotonic() - self._step_began)
            return self._proved or self._limit.look(snapshot.job, time.time())
        return f"bad node: {', '.join(map(str, fatal))}"

    def _after(self, end: StepEnd, choice: Choice, history: Sequence[JournalAttempt]) -> int | None:
        decision = self._limit.ended(end)
        if decision is not None and not self._look().ended_by_slurm:
            return self._act_on(decision, code=end.exit_code)
        if end.status == 0 and not end.ended_why:
            return self._succeeded(end)
        say(f"step ended: {end.how}")
        snapshot = self._look_with_incidents()
        if not end.terminated:
            snapshot = look_until_fatal(
                self._look_with_incidents,
                wait_s=self._tools.config.evidence_wait_s,
                clock=time.monotonic,
                sleep=self._control.sleep,
            )
        if snapshot.ended_by_slurm or self._tools.signals.terminated:
            return self._ended_by_others(end, snapshot)
        if (end.cancelled_step or end.user_signal) and self._nodes_are_healthy(snapshot):
            why = f"{self._cancelled(end)}; not restarted"
            return self._finish(end.exit_code or 143, why, cancelled=True)
        if self._proved and end.ended_why == self._proved:
            journal = self._tools.journal
            journal.add("proved", attempt=self._number, why=self._proved)
            return self._act(JobDecision(next=Next.RESTART, why=self._proved), code=end.exit_code)
        left = resume.left(self._job.checkpoints, choice)
        ended = attempt_end(end, left, self._nodes)
        if ended.cause:
            say(f"cause: {ended.cause.line.text.strip()[:200]} ({ended.cause.signature.code})")
        self._report_loss(end, left.newest, history)
        return self._act(self._decide(snapshot, ended, history), code=end.exit_code)

    def _act_on(self, decision: JobDecision, code: int) -> int | None:
        """For the time limit: it is no failure, so there is no evidence."""
        journal, action = self._tools.journal, decision.next.value
        journal.add("decision", attempt=self._number, action=action, why=decision.why)
        if decision.next is Next.REQUEUE:
            journal.add("continued", attempt=self._number)
        say(f"decision: {decision.next.value}: {decision.why}")
        return self._act(decision, code)

    def _report_loss(
        self, end: StepEnd, newest: Checkpoint | None, history: Sequence[JournalAttempt]
    ) -> None:
        seconds = losses.lost_s(end, newest)
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
        snapshot = self._look()
        if snapshot.ended_by_slurm:
            say(f"step ended: {end.how}")
            return self._ended_by_others(end, snapshot)
        if snapshot.job is None:
            return self._finish(0, "job state not known: slurmctld does not answer")
        if end.cancelled_step:
            return self._finish(0, self._cancelled(end), cancelled=True)
        if end.terminated:
            return self._finish(0, "after a SIGTERM or SIGINT that Holdfast did not send")
        return self._finish(0, "", succeeded=True)

    def _cancelled(self, end: StepEnd) -> str:
        if not end.cancelled_step:
            return f"a task was ended by a signal of a user ({end.user_signal})"
        step = f"{self._job.context.job_id}.{end.cancelled_step}"
        return f"step {step} was cancelled or signalled by a user (scancel, --signal)"

    def _nodes_are_healthy(self, snapshot: JobSnapshot) -> bool:
        """True when no node has a known fatal fault. A step that Slurm cancels for a lost node looks
        like one that a user cancelled."""
        if snapshot.faults is None or since(self._earlier_incidents, snapshot).fatal_nodes:
            return False
        return not any(fault.fatal for fault in snapshot.faults)

    def _ended_by_others(self, end: StepEnd, snapshot: JobSnapshot) -> int:
        """The job was cancelled, requeued, preempted or ran out of time: Holdfast does not requeue it.

        While the job itself is still RUNNING the marker becomes ``finished``. Otherwise it stays
        ``running``, so that the agent starts the job at once if Slurm has requeued it.
        """
        state = snapshot.job.state.split("+")[0] if snapshot.job else "unknown"
        why = f"ended by Slurm or a user (job state {state}); not requeued by Holdfast"
        if end.status == 0:
            why += "; the command exited with 0, but the job did not succeed"
        code = end.exit_code or 143
        if state == "RUNNING":
            return self._finish(code, why, cancelled=True)
        say(why)
        self._tools.journal.add(
            "finish",
            attempt=self._number,
            exit_code=code,
            why=why,
            job_state=state if snapshot.job else None,
            cancelled=True,
        )
        return code

    def _decide(
        self, snapshot: JobSnapshot, ended: AttemptEnd, history: Sequence[JournalAttempt]
    ) -> JobDecision:
        journal = self._tools.journal
        if snapshot.job and "_" in snapshot.job.array_task:
            self._name = snapshot.job.array_task
        reported = since(self._earlier_incidents, snapshot)
        snapshot = with_incidents(snapshot, reported, self._nodes)
        ended = reported.applied_to(ended, snapshot)
        journal.add(
            "evidence",
            attempt=self._number,
            faults=[fault.record() for fault in snapshot.faults or ()],
            incidents=reported.records(),
            attribution=reported.attribution_with(snapshot).value,
            **ended.record(),
        )
        node_count = max(1, self._job.context.node_count)
        known = facts(snapshot, ended, history, node_count, reported.job_fault)
        if ended.suspects:
            known = replace(known, spares=spare_nodes(self._tools.slurm, self._nodes))
        tried = past(journal.events())
        known = replace(known, next_checkpoint=next_checkpoint(self._job.checkpoints, tried))
        decision = decide(known, self._tools.config, datetime.now(timezone.utc))
        if self._switched_off:
            decision = JobDecision(next=Next.FAIL, why="Holdfast is switched off (off/all)")
        journal.add(
            "decision",
            attempt=self._number,
            action=decision.next.value,
            why=decision.why,
            exclude=list(decision.exclude),
        )
        self._set_exclusion(decision.exclude, snapshot.job.excluded if snapshot.job else "")
        say(f"decision: {decision.next.value}: {decision.why}")
        return decision

    def _set_exclusion(self, suspects: Sequence[SlurmName], listed: str) -> None:
        ours = excluded_nodes(self._tools.journal.events())
        now = datetime.now(timezone.utc)
        self._control.exclusion = exclusion(ours, suspects, names_in(listed), now)

    def _act(self, decision: JobDecision, code: int) -> int | None:
        if decision.next is Next.RESTART:
            self._remaining.end_leftovers(self._number)
            self._control.pause(decision.delay_s)
            return 143 if self._tools.signals.terminated else None
        if decision.next in (Next.FAIL, Next.FINISH):
            return self._finish(code or 1, decision.why)
        held = decision.next is Next.HOLD
        restarts = self._job.context.restarts
        control = self._control
        added = [] if held else list(control.exclusion.add)
        self._tools.journal.add(
            "requeue", attempt=self._number, restarts=restarts, held=held, excluded=added
        )
        if control.hold(decision.why) if held else control.requeue():
            if held:
                say(f"the job is held. Once the cause is fixed: scontrol release {self._name}")
            control.wait_for_sigterm()
            return code or 1
        return self._finish(code or 1, "Slurm did not accept the request")

    def _finish(
        self, code: int, why: str, *, cancelled: bool = False, succeeded: bool = False
    ) -> int:
        """Ends the job here. ``cancelled``: by a user, so not counted as a failure of the job."""
        self._control.mark(markers.FINISHED)
        if code and self._expedited:
            self._control.end_expedited()
        self._tools.journal.add(
            "finish",
            attempt=self._number,
            exit_code=code,
            why=why,
            cancelled=cancelled,
            succeeded=succeeded,
        )
        say(f"done: exit code {code}{': ' + why if why else ''}")
        return code

    @cached_property
    def _nodes(self) -> tuple[SlurmName, ...]:
        return tuple(SlurmName(name) for name in expand(self._job.context.nodes))

    @cached_property
    def _switched_off(self) -> bool:
        return is_off(ALL)

    def _look(self) -> JobSnapshot:
        snapshot = read_snapshot(self._tools.slurm, self._job.context.job_id, self._nodes)
        if snapshot.job is not None:
            self._expedited = snapshot.job.expedited
        return with_lost(snapshot, self._lost.among(snapshot.nodes))

    def _look_with_incidents(self) -> JobSnapshot:
        """As ``_look``, and also checks nodes whose agents report a fatal fault in this attempt."""
        snapshot = read_snapshot(self._tools.slurm, self._job.context.job_id, self._nodes)
        reported = since(self._earlier_incidents, snapshot).fatal_nodes
        return with_lost(snapshot, self._lost.among(snapshot.nodes, reported))

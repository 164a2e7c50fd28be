"""One job under ``holdfast run``: attempt, evidence, decision, until it is over here."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path

from holdfast.config.location import ALL, is_off
from holdfast.incidents import Incident
from holdfast.policy.job import Decision, Next, decide
from holdfast.slurm.hostlist import expand
from holdfast.vocabulary import SlurmName
from slurm_hooks.job import marker as markers
from slurm_hooks.job.checkpoints.find import Choice
from slurm_hooks.job.launcher import resume
from slurm_hooks.job.launcher.agent_incidents import since, with_told
from slurm_hooks.job.launcher.attempt import Job, Tools, child_environment
from slurm_hooks.job.launcher.job_control import JobControl
from slurm_hooks.job.launcher.log import say
from slurm_hooks.job.launcher.lost_nodes import LostNodes
from slurm_hooks.job.launcher.node_faults import Sight, look, look_until_fatal, with_lost
from slurm_hooks.job.launcher.outcome import NOT_STARTED, AttemptEnd, ending, facts
from slurm_hooks.job.launcher.past_attempts import Past, launcher_deaths, past
from slurm_hooks.job.step import kill_tasks
from slurm_hooks.job.step.node_steps import EXTERN, steps_here, steps_on
from slurm_hooks.job.step.overlap_step import environment, overlapping
from slurm_hooks.job.step.step import StepEnd, StepPlan, run_step

_ASK_S = 15.0
"""For the answer of nodes whose slurmd has started again."""


class Run:
    """The launcher's whole life. ``started``: a step was begun; ``last_code``: how the last one
    ended.
    """

    def __init__(self, job: Job, tools: Tools) -> None:
        self._job, self._tools = job, tools
        self._desk = JobControl(job.context, tools)
        self._number = 0
        self._name = str(job.context.job_id)
        self._told_before: tuple[Incident, ...] = ()
        job_id = job.context.job_id
        self._lost = LostNodes(
            lambda nodes: steps_on(job_id, nodes, _ASK_S),
            contained=EXTERN in steps_here(job_id),
        )
        self.started = False
        self.last_code = 0

    def to_the_end(self) -> int:
        """The exit status for the batch script."""
        while True:
            code = self._attempt()
            if code is not None:
                return code

    def _attempt(self) -> int | None:
        """One attempt; ``None``: the next one starts here and now."""
        history = self._begin()
        sight = self._look()
        self._told_before = sight.told
        if sight.faults and not self._switched_off:
            say(f"nothing started: bad node here: {', '.join(map(str, sight.faults))}")
            return self._act(self._decided(sight, NOT_STARTED, history), code=1)
        folder = self._job.checkpoints
        choice = resume.choose(folder, history, self._tools.journal, self._number)
        resume.tell(choice, folder, f"attempt {self._number} of job {self._job.context.job_id}")
        if choice.blind:
            # Starting from nothing might overwrite what only could not be read.
            return self._finish(1, "checkpoints cannot be read")
        end = self._run_step(choice)
        return self._after(end, choice, history)

    def _begin(self) -> list[Past]:
        """Numbers the attempt and says so in journal and marker. The earlier attempts."""
        context, journal = self._job.context, self._tools.journal
        history = past(journal.events())
        self._number = len(history) + 1
        self._desk.deaths = launcher_deaths(history)
        journal.add(
            "attempt",
            attempt=self._number,
            restarts=context.restarts,
            job_start=context.started_at,
            host=context.host,
            nodes=context.nodes,
            command=list(self._job.command),
        )
        if journal.broken:
            say(
                f"journal {journal.path}: {journal.broken}; attempts are not counted until it works"
            )
        self._desk.mark(markers.RUNNING)
        return history

    def _run_step(self, choice: Choice) -> StepEnd:
        journal, config = self._tools.journal, self._tools.config
        plan = StepPlan(
            argv=self._job.command,
            env=child_environment(os.environ, choice, self._number, journal.path),
            watch=self._watch,
            end_tasks=self._end_tasks,
            poll_s=config.poll_s,
            end_grace_s=config.end_grace_s,
        )
        journal.add("step_start", attempt=self._number, command=shlex.join(self._job.command))
        self.started = True
        end = run_step(plan, self._tools.signals)
        self.last_code = end.exit_code
        journal.add(
            "step_end",
            attempt=self._number,
            exit_code=end.exit_code,
            status=end.status,
            wall_s=round(end.ended_at - end.started_at, 3),
            how=end.how,
            told_to_end=end.told_to_end,
        )
        return end

    def _watch(self) -> str:
        """Why the step must end now: for the case that a node's agent cannot end its tasks
        itself.
        """
        fatal = [fault for fault in self._look_blaming().faults or () if fault.fatal]
        if not fatal or self._switched_off:
            return ""
        return f"bad node: {', '.join(map(str, fatal))}"

    def _end_tasks(self, steps: frozenset[str]) -> None:
        """SIGKILL for the tasks of these steps, or of all of the attempt, past a slurmstepd that
        waits for KillWait. Not waited for."""
        job_id, count = self._job.context.job_id, max(1, self._job.context.node_count)
        say("ending the step's remaining tasks")
        argv = [*overlapping(job_id, count), *kill_tasks.command(self._which, steps)]
        null, env = subprocess.DEVNULL, environment(os.environ)
        try:
            subprocess.Popen(
                argv, env=env, stdin=null, stdout=null, stderr=null, start_new_session=True
            )
        except OSError as error:
            say(f"srun: {error.strerror}; waiting for Slurm to end them")

    def _clear_away(self) -> None:
        """What a command left behind here (ranks without srun, or the srun of a script that gave up)
        would train on beside the next attempt and write the same checkpoints."""
        left = list(kill_tasks.processes(Path("/proc"), self._which))
        if not left:
            return
        pids = ", ".join(str(one.pid) for one in left[:8])
        say(f"ending what attempt {self._number} left behind here: pid {pids}")
        kill_tasks.clear_away(self._which, self._tools.config.end_grace_s, self._desk.sleep)
        if self._job.context.node_count > 1:
            self._end_tasks(frozenset())

    @property
    def _which(self) -> kill_tasks.Which:
        job_id, journal = self._job.context.job_id, self._tools.journal.path
        return kill_tasks.Which(job_id=job_id, journal=str(journal), attempt=self._number)

    def _after(self, end: StepEnd, choice: Choice, history: Sequence[Past]) -> int | None:
        if end.status == 0 and not end.ended_why:
            return self._ended_well(end)
        say(f"step ended: {end.how}")
        sight = self._look_blaming()
        if not end.told_to_end:
            sight = look_until_fatal(
                self._look_blaming,
                wait_s=self._tools.config.evidence_wait_s,
                clock=time.monotonic,
                sleep=self._desk.sleep,
            )
        if sight.ended_by_slurm or self._tools.signals.told_to_end:
            return self._ended_from_outside(end, sight)
        if end.cancelled_step and self._is_sound(sight):
            why = f"{self._cancelled(end)}, so it is not started again"
            return self._finish(end.exit_code or 143, why, cancelled=True)
        newest = resume.newest_step(self._job.checkpoints)
        ended = ending(end, choice, newest, self._nodes)
        if ended.cause:
            say(f"cause: {ended.cause.line.text.strip()[:200]} ({ended.cause.signature.code})")
        return self._act(self._decided(sight, ended, history), code=end.exit_code)

    def _ended_well(self, end: StepEnd) -> int:
        """Exit code 0 is success only while Slurm has not ended the job: ranks may ignore SIGTERM, or
        save and exit well, in a job that is cancelled, requeued or out of time."""
        sight = self._look()
        if sight.ended_by_slurm:
            say(f"step ended: {end.how}")
            return self._ended_from_outside(end, sight)
        if sight.job is None:
            return self._finish(0, "Slurm could not be asked for the job's state")
        if end.cancelled_step:
            return self._finish(0, self._cancelled(end), cancelled=True)
        return self._finish(0, "after a signal from outside" if end.told_to_end else "")

    def _cancelled(self, end: StepEnd) -> str:
        step = f"{self._job.context.job_id}.{end.cancelled_step}"
        return f"step {step} was cancelled or signalled from outside (scancel, --signal)"

    def _is_sound(self, sight: Sight) -> bool:
        """Nothing is known against the nodes: a step that Slurm cancels for a lost node reads as one
        that its user cancelled."""
        if sight.faults is None or since(self._told_before, sight).fatal_nodes:
            return False
        return not any(fault.fatal for fault in sight.faults)

    def _ended_from_outside(self, end: StepEnd, sight: Sight) -> int:
        """scancel, requeue by somebody, time limit, preemption: not ours to decide.

        The marker stays ``running`` unless the job goes on: should Slurm have requeued it, the
        agent starts it at once.
        """
        state = sight.job.state.split("+")[0] if sight.job else "unknown"
        why = f"ended from outside (job state {state}), no requeue by us"
        if end.status == 0:
            why += "; the command's exit code 0 is no success of the job"
        code = end.exit_code or 143
        if state == "RUNNING":
            return self._finish(code, why, cancelled=True)
        say(why)
        self._tools.journal.add(
            "finish",
            attempt=self._number,
            exit_code=code,
            why=why,
            job_state=state if sight.job else None,
            cancelled=True,
        )
        return code

    def _decided(self, sight: Sight, ended: AttemptEnd, history: Sequence[Past]) -> Decision:
        journal = self._tools.journal
        if sight.job and "_" in sight.job.array_task:
            self._name = sight.job.array_task
        told = since(self._told_before, sight)
        sight = with_told(sight, told, self._nodes)
        ended = told.cleared(ended, sight)
        journal.add(
            "evidence",
            attempt=self._number,
            faults=[fault.record() for fault in sight.faults or ()],
            told=told.records(),
            blames=told.blames_with(sight).value,
            **ended.record(),
        )
        known = facts(sight, ended, history, max(1, self._job.context.node_count), told.attribution)
        decision = decide(known, self._tools.config, datetime.now(timezone.utc))
        if self._switched_off:
            decision = Decision(next=Next.FAIL, why="Holdfast is switched off (off/all)")
        journal.add(
            "decision",
            attempt=self._number,
            action=decision.next.value,
            why=decision.why,
            exclude=list(decision.exclude),
        )
        say(f"decision: {decision.next.value}: {decision.why}")
        return decision

    def _act(self, decision: Decision, code: int) -> int | None:
        if decision.next is Next.RESTART:
            self._clear_away()
            self._desk.pause(decision.delay_s)
            return 143 if self._tools.signals.told_to_end else None
        if decision.next in (Next.FAIL, Next.FINISH):
            return self._finish(code or 1, decision.why)
        held = decision.next is Next.HOLD
        restarts = self._job.context.restarts
        self._tools.journal.add("requeue", attempt=self._number, restarts=restarts, held=held)
        desk = self._desk
        if desk.hold(decision.why) if held else desk.requeue(decision.exclude):
            if held:
                say(f"the job is held; when the cause is gone: scontrol release {self._name}")
            desk.wait_for_the_end()
            return code or 1
        return self._finish(code or 1, "Slurm did not take the request")

    def _finish(self, code: int, why: str, *, cancelled: bool = False) -> int:
        """``cancelled``: by somebody, so that nobody counts it as a failure of the job."""
        self._desk.mark(markers.FINISHED)
        self._tools.journal.add(
            "finish", attempt=self._number, exit_code=code, why=why, cancelled=cancelled
        )
        say(f"done: exit code {code}{': ' + why if why else ''}")
        return code

    @cached_property
    def _nodes(self) -> tuple[SlurmName, ...]:
        return tuple(SlurmName(name) for name in expand(self._job.context.nodes))

    @cached_property
    def _switched_off(self) -> bool:
        return is_off(ALL)

    def _look(self) -> Sight:
        sight = look(self._tools.slurm, self._job.context.job_id, self._nodes)
        return with_lost(sight, self._lost.among(sight.nodes))

    def _look_blaming(self) -> Sight:
        """As ``_look``; a node that its agent blames for this attempt is asked as well."""
        sight = look(self._tools.slurm, self._job.context.job_id, self._nodes)
        blamed = since(self._told_before, sight).fatal_nodes
        return with_lost(sight, self._lost.among(sight.nodes, blamed))

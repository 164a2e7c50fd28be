"""One job under ``holdfast run``: attempt, evidence, decision, until it is over here."""

from __future__ import annotations

import os
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import cached_property

from holdfast.config.location import ALL, is_off
from holdfast.errors import CommandError, Unavailable
from holdfast.hostlist import expand
from holdfast.vocabulary import SlurmName
from slurm_hooks.job import marker as markers
from slurm_hooks.job.attempt import Job, Tools, child_environment
from slurm_hooks.job.checkpoints.candidate import Checkpoint
from slurm_hooks.job.checkpoints.find import Choice, last_good
from slurm_hooks.job.deciding import Decision, Facts, Next, decide
from slurm_hooks.job.evidence import Sight, look, look_until_fatal
from slurm_hooks.job.history import Past, launcher_deaths, past, struck
from slurm_hooks.job.step import StepEnd, StepPlan, run_step

_AFTER_REQUEUE_S = 60.0
"""Slurm ends the batch script within KillWait; until then the script must not go on."""
_MAX_TOLD = 5


def say(text: str) -> None:
    """One line in the job's log."""
    try:
        sys.stderr.write(f"holdfast: {text}\n")
        sys.stderr.flush()
    except OSError:
        pass  # a log that cannot be written must not end the job


class Run:
    """The launcher's whole life. ``started`` is True once a step was begun."""

    def __init__(self, job: Job, tools: Tools) -> None:
        self._job, self._tools = job, tools
        self._number = 0
        self._deaths = 0
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
        context, journal = self._job.context, self._tools.journal
        history = past(journal.events())
        self._number = len(history) + 1
        self._deaths = launcher_deaths(history)
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
                f"journal {journal.path}: {journal.broken}; attempts are not counted until it can be written"
            )
        self._mark(markers.RUNNING)
        sight = self._look()
        if sight.faults and not self._switched_off:
            return self._leave_bad_nodes(sight, history)
        choice = self._choose(history)
        if choice.blind:
            return self._refuse_to_start()
        end = self._run_step(choice)
        return self._after(end, choice, history)

    # -- before the step

    def _leave_bad_nodes(self, sight: Sight, history: Sequence[Past]) -> int | None:
        told = ", ".join(str(fault) for fault in sight.faults or ())
        say(f"nothing started: bad node in the allocation: {told}")
        return self._act(self._decided(sight, None, None, history), code=1)

    def _choose(self, history: Sequence[Past]) -> Choice:
        try:
            choice = last_good(
                self._job.checkpoints, now=time.time(), sleep=time.sleep, struck=struck(history)
            )
        except OSError as error:
            unreadable = Checkpoint(
                path=self._job.checkpoints,
                framework="",
                step=None,
                changed_at=0.0,
                reason=f"cannot be listed: {error.strerror}",
                unreadable=True,
            )
            choice = Choice(chosen=None, rejected=(unreadable,))
        self._tools.journal.add(
            "checkpoint",
            attempt=self._number,
            chosen=_record(choice.chosen) if choice.chosen else None,
            rejected=[_record(one) for one in choice.rejected],
        )
        self._tell_choice(choice)
        return choice

    def _tell_choice(self, choice: Choice) -> None:
        for one in choice.rejected[:_MAX_TOLD]:
            say(f"not {one.path.name}: {one.reason}")
        if len(choice.rejected) > _MAX_TOLD:
            say(
                f"nor {len(choice.rejected) - _MAX_TOLD} more: holdfast checkpoints {self._job.checkpoints}"
            )
        where = "from the beginning: no checkpoint yet"
        if choice.chosen:
            step = "" if choice.chosen.step is None else f" (step {choice.chosen.step})"
            where = f"from {choice.chosen.path}{step}"
        elif choice.rejected:
            where = "from the beginning: no whole checkpoint"
        if not choice.blind:
            say(f"attempt {self._number} of job {self._job.context.job_id} starts {where}")

    def _refuse_to_start(self) -> int:
        """Starting from nothing might overwrite what only could not be read."""
        say(
            f"nothing started: checkpoints in {self._job.checkpoints} cannot be read; ask for r-x on them"
        )
        return self._finish(1, "checkpoints cannot be read")

    # -- the step

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
        first = end.deaths[0] if end.deaths else None
        journal.add(
            "step_end",
            attempt=self._number,
            exit_code=end.exit_code,
            status=end.status,
            wall_s=round(end.ended_at - end.started_at, 3),
            ended_why=end.ended_why,
            told_to_end=end.told_to_end,
            first_death=f"{first.host} task {first.tasks}: {first.how}" if first else "",
        )
        return end

    def _watch(self) -> str:
        """Why the step must end now, for the case that a node's agent cannot end its tasks
        itself.
        """
        fatal = [fault for fault in self._look().faults or () if fault.fatal]
        return f"bad node: {', '.join(str(fault) for fault in fatal)}" if fatal else ""

    def _end_tasks(self) -> None:
        """SIGKILL for every task, past a slurmstepd that waits for KillWait. Not waited for."""
        context = self._job.context
        say("ending the step's remaining tasks")
        count = str(max(1, context.node_count))
        argv = [
            "srun",
            "--quiet",
            "--overlap",
            f"--jobid={context.job_id}",
            f"--nodes={count}",
            f"--ntasks={count}",
        ]
        argv += [
            "--ntasks-per-node=1",
            "--cpus-per-task=1",
            "--mem=0",
            "--gres=none",
            "--kill-on-bad-exit=0",
        ]
        argv += [sys.executable, "-m", "slurm_hooks.job.end_tasks", str(context.job_id)]
        try:
            subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            say(f"srun: {error.strerror}; waiting for Slurm to end them")

    # -- after the step

    def _after(self, end: StepEnd, choice: Choice, history: Sequence[Past]) -> int | None:
        if end.status == 0 and not end.ended_why:
            return self._finish(0, "")
        say(f"step ended: {_how(end)}")
        if end.told_to_end:
            return self._told_to_end(end)
        config = self._tools.config
        sight = look_until_fatal(
            self._look, wait_s=config.evidence_wait_s, clock=time.monotonic, sleep=self._sleep
        )
        if sight.ended_by_slurm or self._tools.signals.told_to_end:
            return self._told_to_end(end)
        return self._act(self._decided(sight, end, choice, history), code=end.exit_code)

    def _told_to_end(self, end: StepEnd) -> int:
        """scancel, requeue by somebody, time limit, preemption: not ours to decide.

        The marker stays ``running``: should Slurm have requeued the job, the agent starts it at
        once.
        """
        sight = self._look()
        state = sight.job.state if sight.job else "unknown"
        say(f"ended from outside (job state {state}): no requeue by us")
        self._tools.journal.add(
            "finish",
            attempt=self._number,
            exit_code=end.exit_code,
            why=f"ended from outside: {state}",
        )
        if state == "RUNNING":
            self._mark(markers.FINISHED)
        return end.exit_code or 143

    def _decided(
        self, sight: Sight, end: StepEnd | None, choice: Choice | None, history: Sequence[Past]
    ) -> Decision:
        facts = Facts.of(sight, end, choice, history, self._newest_step(end))
        journal = self._tools.journal
        journal.add("evidence", attempt=self._number, **facts.record())
        decision = decide(facts, self._number, self._tools.config)
        if self._switched_off:
            decision = Decision(
                next=Next.FAIL, why="Holdfast is switched off (off/all)", exclude=()
            )
        journal.add(
            "decision",
            attempt=self._number,
            action=decision.next.value,
            why=decision.why,
            exclude=list(decision.exclude),
        )
        return decision

    def _newest_step(self, end: StepEnd | None) -> int | None:
        if end is None:
            return None
        try:
            found = last_good(self._job.checkpoints, now=time.time() + 3600, sleep=time.sleep)
        except OSError:
            return None
        return found.chosen.step if found.chosen else None

    def _act(self, decision: Decision, code: int) -> int | None:
        say(f"decision: {decision.next.value}: {decision.why}")
        if decision.next is Next.RESTART:
            return None
        if decision.next is Next.FAIL:
            return self._finish(code or 1, decision.why)
        if self._ask_slurm(decision):
            self._wait_for_the_end()
            return code or 1
        return self._finish(code or 1, "Slurm did not take the request")

    def _ask_slurm(self, decision: Decision) -> bool:
        """Requeues or holds the job. The marker and the journal come first: Slurm's answer is
        SIGTERM.
        """
        slurm, context = self._tools.slurm, self._job.context
        hold = decision.next is Next.HOLD
        self._tools.journal.add(
            "requeue", attempt=self._number, restarts=context.restarts, hold=hold
        )
        self._mark(markers.FINISHED if hold else markers.REQUEUE, decision.exclude)
        try:
            self._patiently(
                (lambda: slurm.hold(context.job_id, decision.why))
                if hold
                else (lambda: slurm.requeue(context.job_id))
            )
        except CommandError as error:
            say(f"{'hold' if hold else 'requeue'} refused: {error.output.strip() or error.problem}")
            return False
        return True

    def _finish(self, code: int, why: str) -> int:
        self._mark(markers.FINISHED)
        self._tools.journal.add("finish", attempt=self._number, exit_code=code, why=why)
        say(f"done: exit code {code}{': ' + why if why else ''}")
        return code

    # -- Slurm and time

    @cached_property
    def _nodes(self) -> tuple[SlurmName, ...]:
        return tuple(SlurmName(name) for name in expand(self._job.context.nodes))

    @cached_property
    def _switched_off(self) -> bool:
        return is_off(ALL)

    def _look(self) -> Sight:
        return look(self._tools.slurm, self._job.context.job_id, self._nodes)

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
                say(f"slurmctld does not answer, asking again in {pause_s:g} s ({error.problem})")
                self._sleep(pause_s)
                pause_s = min(30.0, pause_s * 2)

    def _sleep(self, seconds: float) -> None:
        """Sleeps, and wakes early for a signal."""
        select.select([self._tools.signals.wake_fd], [], [], seconds)
        self._tools.signals.take()

    def _wait_for_the_end(self) -> None:
        end = time.monotonic() + _AFTER_REQUEUE_S
        while time.monotonic() < end and not self._tools.signals.told_to_end:
            self._sleep(1.0)

    def _mark(self, state: str, exclude: Sequence[str] = ()) -> None:
        context = self._job.context
        markers.write(
            self._tools.run_dir,
            markers.Marker(
                job=context.job_id,
                restarts=context.restarts,
                state=state,
                at=round(time.time(), 3),
                exclude=tuple(exclude),
                deaths=self._deaths,
            ),
        )


def _how(end: StepEnd) -> str:
    if end.ended_why:
        return end.ended_why
    if end.deaths:
        first = end.deaths[0]
        return (
            f"task {first.tasks} on {first.host}: {first.how}"
            if first.tasks
            else f"{first.how} on {first.host}"
        )
    return f"signal {-end.status}" if end.status < 0 else f"exit code {end.status}"


def _record(one: Checkpoint) -> dict[str, object]:
    return {
        "path": str(one.path),
        "framework": one.framework,
        "step": one.step,
        "reason": one.reason,
    }

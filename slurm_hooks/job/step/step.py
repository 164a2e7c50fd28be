"""Runs one step to its end: passes signals on, ends it at once when a rank died or a node is
lost.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from holdfast.vocabulary import DO_NOT_REQUEUE
from slurm_hooks.job.step.child import Child
from slurm_hooks.job.step.srun_output import TaskDeath

FORWARDED = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT)
KILL_ON_BAD_EXIT = "SLURM_KILL_BAD_EXIT"
_DRAIN_S = 0.3
"""After the child's end: a stray grandchild may hold its standard error open for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnd:
    """How a step ended.

    ``status``       exit status, negative for a signal (``subprocess``'s way).
    ``deaths``       the tasks that srun reported, first one first.
    ``ended_why``    why the launcher ended it, empty when it ended by itself.
    ``told_to_end``  SIGTERM or SIGINT came from outside (scancel, requeue, time limit, preemption).
    ``cancelled_step``  number of the step that somebody cancelled (``scancel JOB.STEP``, ``scancel -s
                     TERM JOB``) while the job goes on; empty: none, or srun had other errors, too.
    ``tail``         the last lines of its standard error.
    """

    status: int
    started_at: float
    ended_at: float
    deaths: tuple[TaskDeath, ...] = ()
    ended_why: str = ""
    told_to_end: bool = False
    cancelled_step: str = ""
    tail: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """As a shell tells it: 128 + n for a signal. What the first dead task said counts more than
        srun's highest code, which the others' deaths by SIGTERM raise to 143; 93 is the command's
        own word."""
        told = self.status not in (0, DO_NOT_REQUEUE) and self.deaths
        if told and self.deaths[0].code is not None:
            return self.deaths[0].code
        return self.status if self.status >= 0 else 128 - self.status

    @property
    def how(self) -> str:
        """In a few words, for people."""
        if self.ended_why:
            return self.ended_why
        if self.deaths:
            return str(self.deaths[0])
        return f"signal {-self.status}" if self.status < 0 else f"exit code {self.status}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """What to run and how to end it.

    ``watch`` is asked every ``poll_s`` in a thread of its own and returns why the step must end, or
    an empty string. ``end_tasks`` starts the SIGKILL of the tasks of these steps (none given: of
    all) and returns at once. ``last_kill_s`` after it srun itself is killed: it waits for nodes that
    are gone.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    watch: Callable[[], str]
    end_tasks: Callable[[frozenset[str]], None]
    poll_s: float
    end_grace_s: float
    last_kill_s: float = 10.0

    @property
    def bears_deaths(self) -> bool:
        """Whoever says so wants the other ranks to go on: elastic launchers, restarts in process."""
        told = "--kill-on-bad-exit=0" in self.argv or "-K0" in self.argv
        return told or self.env.get(KILL_ON_BAD_EXIT) == "0"


class Signals:
    """Signals that came for the launcher, kept until they are passed on.

    One pipe wakes the main loop for a signal, for the child's end (SIGCHLD) and for the watching
    thread.
    """

    def __init__(self) -> None:
        self.pending: list[int] = []
        self.told_to_end = False
        self.wake_fd, self._write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    @contextmanager
    def caught(self) -> Iterator[Signals]:
        before = {one: signal.signal(one, self._note) for one in (*FORWARDED, signal.SIGCHLD)}
        old_fd = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        try:
            yield self
        finally:
            signal.set_wakeup_fd(old_fd)
            for one, handler in before.items():
                signal.signal(one, handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        if number != signal.SIGCHLD:
            self.pending.append(number)
        if number in (signal.SIGTERM, signal.SIGINT):
            self.told_to_end = True

    def wake(self) -> None:
        try:
            os.write(self._write_fd, b"w")
        except BlockingIOError:
            pass  # it is awake already

    def take(self) -> list[int]:
        try:
            os.read(self.wake_fd, 4096)
        except BlockingIOError:
            pass
        taken, self.pending = self.pending, []
        return taken


class Watch:
    """Asks ``look`` every ``poll_s`` in a thread, so that a slow slurmctld delays no signal and no
    output.
    """

    def __init__(self, look: Callable[[], str], poll_s: float, wake: Callable[[], None]) -> None:
        self.why = ""
        self._look, self._poll_s, self._wake = look, poll_s, wake
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="watch")
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._poll_s):
            self.why = self._look()
            if self.why:
                self._wake()
                return

    def stop(self) -> None:
        self._stop.set()


class _Ending:
    """The stages of an end: ask the group, SIGKILL the tasks, SIGKILL srun.

    For a rank's death these are the tasks and the srun of its own step: a script (``srun probe ||
    true``) may bear that and go on to the next.
    """

    def __init__(self, child: Child, plan: StepPlan) -> None:
        self._child, self._plan = child, plan
        self._stages: list[tuple[float, Callable[[], None]]] = []
        self._done: frozenset[str] | None = None
        self.why = ""

    def for_node(self, why: str, now: float) -> None:
        """Everything ends; SIGTERM first."""
        if self._stages or self.why == why:
            return
        self.why = why
        self._child.being_ended = True
        self._child.signal(signal.SIGTERM)
        self._begin(now, frozenset, lambda: self._child.signal(signal.SIGKILL))

    def for_deaths(self, now: float) -> None:
        """Not asked: srun is ending the step already, unless it was told not to."""
        if (
            self._stages
            or self._plan.bears_deaths
            or self._done == frozenset(self._child.ended_steps)
        ):
            return
        self.why = str(self._child.deaths[0])
        sruns = self._child.sruns()
        self._begin(now, self._new_steps, lambda: self._child.kill(sruns))

    def _new_steps(self) -> frozenset[str]:
        before, self._done = self._done or frozenset(), frozenset(self._child.ended_steps)
        return self._done - before

    def _begin(
        self, now: float, steps: Callable[[], frozenset[str]], last: Callable[[], None]
    ) -> None:
        grace_end = now + self._plan.end_grace_s
        self._stages = [
            (grace_end, lambda: self._plan.end_tasks(steps())),
            (grace_end + self._plan.last_kill_s, last),
        ]

    def wait_s(self, now: float) -> float | None:
        return max(0.0, self._stages[0][0] - now) if self._stages else None

    def advance(self, now: float) -> None:
        while self._stages and now >= self._stages[0][0]:
            self._child.being_ended = True
            self._stages.pop(0)[1]()


def run_step(plan: StepPlan, signals: Signals) -> StepEnd:
    """Runs the step; returns when it is over. Raises OSError when it cannot be started."""
    started_at = time.time()
    child = Child(plan.argv, plan.env, time.time)
    watch = Watch(plan.watch, plan.poll_s, signals.wake)
    ending = _Ending(child, plan)
    try:
        status = _follow(child, watch, ending, signals)
    finally:
        watch.stop()
        child.close()
    return StepEnd(
        status=status,
        started_at=started_at,
        ended_at=time.time(),
        deaths=tuple(child.deaths),
        ended_why="" if child.deaths and not watch.why else ending.why,
        told_to_end=signals.told_to_end,
        cancelled_step=_cancelled_step(child),
        tail=tuple(child.tail),
    )


def _cancelled_step(child: Child) -> str:
    """Empty where srun had trouble (it cancels the step of a lost node itself), and where a script has
    gone on to another step that died."""
    step = child.cancelled_step
    later = any(int(other) > int(step) for other in child.ended_steps if step.isdigit())
    return "" if child.troubled or later else step


def _follow(child: Child, watch: Watch, ending: _Ending, signals: Signals) -> int:
    reading = True
    drain_until: float | None = None
    while True:
        now = time.monotonic()
        for number in signals.take():
            child.signal(number)
        if watch.why:
            ending.for_node(watch.why, now)
        elif child.deaths:
            ending.for_deaths(now)
        ending.advance(now)
        status = child.status()
        if status is not None:
            drain_until = drain_until or now + _DRAIN_S
            if not reading or now >= drain_until:
                return status
        reading = _wait(child, signals, reading, _timeout_s(now, ending, drain_until))


def _timeout_s(now: float, ending: _Ending, drain_until: float | None) -> float:
    """At most a second: a lost wake-up then costs a second and never the job."""
    waits = [1.0]
    stage_s = ending.wait_s(now)
    if stage_s is not None:
        waits.append(stage_s)
    if drain_until is not None:
        waits.append(max(0.0, drain_until - now))
    return min(waits)


def _wait(child: Child, signals: Signals, reading: bool, timeout_s: float) -> bool:
    """Sleeps until something happens, passes standard error on; False once that has ended."""
    watched = [signals.wake_fd, *([child.stderr_fd] if reading else [])]
    ready, _, _ = select.select(watched, [], [], timeout_s)
    return child.pass_on() if child.stderr_fd in ready else reading

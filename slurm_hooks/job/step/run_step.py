"""Runs one step to its end: forwards signals, and ends the step at once when a rank fails or a node
is lost.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from holdfast.vocabulary import DO_NOT_REQUEUE
from slurm_hooks.job.diagnosis.causes import Engine
from slurm_hooks.job.diagnosis.lines.line import Diagnosis
from slurm_hooks.job.step.child import FORWARDED, Child
from slurm_hooks.job.step.node_watch import Watch
from slurm_hooks.job.step.output_reader import Listener
from slurm_hooks.job.step.srun_output import TaskFailure
from slurm_hooks.job.step.termination import StepPlan, Termination

_USER_SIGNALS = (
    *(signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2),
)
_SENT_BY_USERS = frozenset(signal.strsignal(number) for number in _USER_SIGNALS)
_DRAIN_S = 0.3
"""Time to read standard error after the child's exit. A descendant may keep it open for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnd:
    """How a step ended.

    ``status``          exit status, negative for a signal (as in ``subprocess``).
    ``failures``        the failed tasks that srun reported, in order.
    ``ended_why``       why the launcher ended it, empty when it ended by itself.
    ``terminated``      the launcher received SIGTERM or SIGINT (scancel, requeue, time limit,
                        preemption).
    ``cancelled_step``  number of the step that a user cancelled (``scancel JOB.STEP``, ``scancel -s
                        TERM JOB``) while the job continues; empty: none, or srun had other errors.
    ``found``           the cause in its output.
    ``whole``           all its tasks have ended, as srun says: it ended by itself and reported no node as
                        lost.
    """

    status: int
    started_at: float
    ended_at: float
    failures: tuple[TaskFailure, ...] = ()
    ended_why: str = ""
    terminated: bool = False
    cancelled_step: str = ""
    found: Diagnosis = field(default_factory=Diagnosis.none)
    whole: bool = False

    @property
    def exit_code(self) -> int:
        """As in a shell: 128 + n for a signal. The code of the first failed task counts, not srun's
        highest code, which is 143 after the other tasks got SIGTERM. Exit code 93 of the command
        itself always counts."""
        first = self.failures[0] if self.failures else None
        if self.status not in (0, DO_NOT_REQUEUE) and first and first.code is not None:
            return first.code
        return self.status if self.status >= 0 else 128 - self.status

    @property
    def user_signal(self) -> str:
        """The signal that only a person, a program or ``sbatch --signal`` sends, and that ended the
        first task; empty: another reason."""
        if self.failures:
            how = self.failures[0].how
            return how if how in _SENT_BY_USERS else ""
        return signal.strsignal(-self.status) or "" if -self.status in _USER_SIGNALS else ""

    @property
    def how(self) -> str:
        """One short phrase for the log."""
        if self.ended_why:
            return self.ended_why
        if self.failures:
            return str(self.failures[0])
        return f"signal {-self.status}" if self.status < 0 else f"exit code {self.status}"


class StepSignals:
    """Signals that the launcher received, kept until they are forwarded.

    One pipe wakes the main loop for a signal, for the child's exit (SIGCHLD) and for the watch
    thread.
    """

    def __init__(self) -> None:
        self.pending: list[int] = []
        self.terminated = False
        self.wake_fd, self._write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    @contextmanager
    def caught(self) -> Iterator[StepSignals]:
        # Handlers only note the signal: a handler may run between any two instructions of the loop.
        handled = (*FORWARDED, signal.SIGCHLD)
        before = {number: signal.signal(number, self._on_signal) for number in handled}
        old_fd = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        try:
            yield self
        finally:
            signal.set_wakeup_fd(old_fd)
            for number, handler in before.items():
                # None: the handler was not installed by Python, and cannot be given back.
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if number != signal.SIGCHLD:
            self.pending.append(number)
        if number in (signal.SIGTERM, signal.SIGINT):
            self.terminated = True

    def send(self, number: int) -> None:
        """Passes a signal on to the command, from any thread."""
        self.pending.append(number)
        self.wake()

    def wake(self) -> None:
        try:
            os.write(self._write_fd, b"w")
        except BlockingIOError:
            pass  # the pipe is full: the loop wakes anyway

    def take(self) -> list[int]:
        try:
            os.read(self.wake_fd, 4096)
        except BlockingIOError:
            pass
        taken, self.pending = self.pending, []
        return taken


def run_step(plan: StepPlan, signals: StepSignals) -> StepEnd:
    """Runs the step and returns when it has ended. Raises OSError when it cannot be started."""
    started_at = time.time()
    listener = Listener(Engine(launcher=False, rank_hosts=plan.rank_hosts), plan.argv, plan.env)
    child = Child(plan.argv, plan.env, time.time, listener.stderr)
    listener.start(child.pid)
    plan.on_started(listener)
    watch = Watch(plan.watch, plan.poll_s, signals.wake, lambda: listener.heard_at, plan.skip_looks)
    ending = Termination(child, plan, signals.wake)
    try:
        status = _follow(child, watch, ending, signals, plan.on_terminated)
    finally:
        watch.stop()
        child.close()
    return StepEnd(
        status=status,
        started_at=started_at,
        ended_at=time.time(),
        failures=tuple(child.failures),
        ended_why="" if child.failures and not (watch.why or plan.fenced()) else ending.why,
        terminated=signals.terminated,
        cancelled_step=_cancelled_step(child),
        found=listener.finish(),
        whole=not (ending.killed or signals.terminated or _lost_something(child)),
    )


def _lost_something(child: Child) -> bool:
    return child.srun_error and not child.aborted_itself


def _cancelled_step(child: Child) -> str:
    """Empty where srun had an error (it also cancels the step of a lost node), where the program itself had
    the step ended, and where a script has continued with another step, which failed."""
    step = child.cancelled_step
    later = any(int(other) > int(step) for other in child.ended_steps if step.isdigit())
    return "" if child.srun_error or child.aborted_itself or later else step


def _follow(
    child: Child,
    watch: Watch,
    ending: Termination,
    signals: StepSignals,
    on_terminated: Callable[[], None],
) -> int:
    reading = True
    drain_until: float | None = None
    recorder: threading.Thread | None = None
    while True:
        now = time.monotonic()
        for number in signals.take():
            child.signal(number)
        if signals.terminated and recorder is None:
            # The storage may not answer: nothing here waits for it.
            recorder = threading.Thread(target=on_terminated, daemon=True)
            recorder.start()
        # A newer attempt is running: its checkpoints are at risk, so nothing else matters.
        if ending.if_fenced():
            pass
        elif watch.why:
            ending.for_node(watch.why, now)
        elif child.failures:
            ending.for_task_failures(now)
        ending.advance(now)
        status = child.status()
        if status is not None:
            # srun writes which task failed just before it exits.
            drain_until = drain_until or now + _DRAIN_S
            if not reading or now >= drain_until:
                return status
        reading = _wait(child, signals, reading, _timeout_s(now, ending, drain_until))


def _timeout_s(now: float, ending: Termination, drain_until: float | None) -> float:
    """At most a second, so that a lost wake-up costs a second and not the job."""
    waits = [1.0]
    stage_s = ending.wait_s(now)
    if stage_s is not None:
        waits.append(stage_s)
    if drain_until is not None:
        waits.append(max(0.0, drain_until - now))
    return min(waits)


def _wait(child: Child, signals: StepSignals, reading: bool, timeout_s: float) -> bool:
    """Sleeps until an event or the time-out, and copies standard error. False once it has ended."""
    watched = [signals.wake_fd, *([child.stderr_fd] if reading else [])]
    ready, _, _ = select.select(watched, [], [], timeout_s)
    return child.pass_on() if child.stderr_fd in ready else reading

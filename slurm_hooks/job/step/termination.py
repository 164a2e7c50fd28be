"""How the launcher ends a step: what the ranks do is kept, then SIGTERM, SIGKILL for the tasks, SIGKILL for srun."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from slurm_hooks.job.step.child import Child
from slurm_hooks.job.step.node_watch import SKIP
from slurm_hooks.job.step.output_reader import Listener

KILL_ON_BAD_EXIT = "SLURM_KILL_BAD_EXIT"
_OPTIONS = ("-K", "--kill-on-bad-exit")


class Evidence(Protocol):
    """Keeps what the ranks do before they are ended. It never blocks its caller.

    ``takes_over``  Slurm does not end the step when a rank fails: the launcher does, after the evidence.
    """

    @property
    def takes_over(self) -> bool: ...

    def begin(self, why: str, wake: Callable[[], None], *, by_watch: bool) -> bool:
        """Starts the collection; ``wake`` is called once it is complete. ``by_watch``: the launcher ends the
        step, and no rank has failed. False: nothing is collected for this end."""
        ...

    def is_complete(self) -> bool:
        """Whether the ranks may be ended: all is there, or it took too long."""
        ...


class NoEvidence:
    """Nothing is collected."""

    takes_over = False

    def begin(self, why: str, wake: Callable[[], None], *, by_watch: bool) -> bool:  # noqa: ARG002
        return False

    def is_complete(self) -> bool:
        return True


def may_take_over(argv: Sequence[str], environ: Mapping[str, str]) -> bool:
    """True if the command is one srun, and no option sets what happens when one of its ranks fails. In a
    script with several steps only srun itself knows which of them a failed rank belongs to."""
    chosen = any(word.startswith(_OPTIONS) for word in argv)
    return Path(argv[0]).name == "srun" and KILL_ON_BAD_EXIT not in environ and not chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """What to run and how to end it.

    ``watch`` is called every ``poll_s`` in its own thread and returns why the step must end, or an
    empty string; ``skip_looks``: see ``Watch``. ``end_tasks`` starts the SIGKILL of the tasks of these steps
    (empty: of all) and returns at once. ``last_kill_s`` later srun itself is killed, since it waits for lost
    nodes.
    ``rank_hosts``: rank → node, where the job's options tell it. ``on_terminated`` is called once in a
    thread of its own when the launcher has received SIGTERM or SIGINT. ``on_started`` is given what hears
    the step's output. ``fenced``: why everything must end at once; ``end_now`` does that beyond the command's
    own process group.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    watch: Callable[[], str]
    end_tasks: Callable[[frozenset[str]], None]
    poll_s: float
    end_grace_s: float
    last_kill_s: float = 10.0
    rank_hosts: Mapping[int, str] = field(default_factory=dict)
    on_terminated: Callable[[], None] = lambda: None
    on_started: Callable[[Listener], None] = lambda _: None
    evidence: Evidence = field(default_factory=NoEvidence)
    skip_looks: Callable[[], int] = lambda: SKIP
    fenced: Callable[[], str] = lambda: ""
    end_now: Callable[[], None] = lambda: None

    @property
    def tolerates_failures(self) -> bool:
        """True when the user wants the other ranks to continue after a failure: elastic launchers,
        restarts within the process."""
        if self.evidence.takes_over:
            return False
        option = "--kill-on-bad-exit=0" in self.argv or "-K0" in self.argv
        return option or self.env.get(KILL_ON_BAD_EXIT) == "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """``due``: when it is due, given when the stage before it was done. ``is_ready``: it may be done now."""

    due: Callable[[float], float]
    act: Callable[[], None]
    is_ready: Callable[[], bool] = lambda: False


class Termination:
    """The stages that end a step.

    After a rank's failure only the tasks and the srun of its own step are ended: a script (``srun
    probe || true``) may tolerate the failure and continue with another step.
    """

    def __init__(self, child: Child, plan: StepPlan, wake: Callable[[], None]) -> None:
        self._child, self._plan, self._wake = child, plan, wake
        self._stages: list[_Stage] = []
        self._due = 0.0
        self._handled: frozenset[str] | None = None
        self.why = ""
        self.killed = False
        """srun did not end by itself: what became of its tasks is not known."""

    def if_fenced(self) -> bool:
        """Ends the whole command without evidence or grace if it must end at once."""
        why = self._plan.fenced()
        if why and self.why != why:
            self.why, self._stages = why, []
            self._child.ending_step = True
            self._kill_all()
            self._plan.end_now()
        return bool(why)

    def _kill_all(self) -> None:
        self.killed = True
        self._child.signal(signal.SIGKILL)

    def _kill_sruns(self, sruns: frozenset[int]) -> None:
        self.killed |= bool(sruns & self._child.sruns())
        self._child.kill(sruns)

    def for_node(self, why: str, now: float) -> None:
        """Ends the whole command; SIGTERM comes first."""
        if self._stages or self.why == why:
            return
        self.why = why
        kept = self._plan.evidence.begin(why, self._wake, by_watch=True)
        grace_s = self._plan.end_grace_s
        self._begin(
            now,
            self._when_kept(self._terminate) if kept else _Stage(due=_at_once, act=self._terminate),
            _Stage(due=lambda then: then + grace_s, act=lambda: self._kill(frozenset())),
            self._kill_all,
        )

    def for_task_failures(self, now: float) -> None:
        """Ends the step of a failed task. srun sends SIGTERM already, unless the launcher does so after the
        evidence, or the user wants the others to continue."""
        if (
            self._stages
            or self._plan.tolerates_failures
            or self._handled == frozenset(self._child.ended_steps)
        ):
            return
        self.why = str(self._child.failures[0])
        sruns, grace_s = self._child.sruns(), self._plan.end_grace_s
        kept = self._plan.evidence.begin(self.why, self._wake, by_watch=False)
        takes_over = self._plan.evidence.takes_over
        first = _Stage(due=_at_once, act=_nothing)
        if takes_over:
            first = self._when_kept(self._terminate)
        elif kept:
            first = self._when_kept(_nothing)
        self._begin(
            now,
            first,
            _Stage(
                due=lambda then: then + grace_s if takes_over else max(then, now + grace_s),
                act=lambda: self._kill(self._new_steps()),
            ),
            lambda: self._kill_sruns(sruns),
        )

    def _terminate(self) -> None:
        self._child.ending_step = True
        self._child.signal(signal.SIGTERM)

    def _kill(self, steps: frozenset[str]) -> None:
        self._child.ending_step = True
        self._plan.end_tasks(steps)

    def _when_kept(self, act: Callable[[], None]) -> _Stage:
        return _Stage(due=lambda _: float("inf"), act=act, is_ready=self._plan.evidence.is_complete)

    def _new_steps(self) -> frozenset[str]:
        before = self._handled or frozenset()
        self._handled = frozenset(self._child.ended_steps)
        return self._handled - before

    def _begin(self, now: float, first: _Stage, kill: _Stage, last: Callable[[], None]) -> None:
        after_s = self._plan.last_kill_s
        self._stages = [first, kill, _Stage(due=lambda then: then + after_s, act=last)]
        self._due = first.due(now)

    def wait_s(self, now: float) -> float | None:
        return max(0.0, self._due - now) if self._stages else None

    def advance(self, now: float) -> None:
        while self._stages and (now >= self._due or self._stages[0].is_ready()):
            self._stages.pop(0).act()
            if self._stages:
                self._due = self._stages[0].due(now)


def _at_once(then: float) -> float:
    return then


def _nothing() -> None:
    return

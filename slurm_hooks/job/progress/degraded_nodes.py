"""A running job leaves degraded nodes at its next checkpoint: it is asked for one, and then requeued.

The program goes on until the checkpoint is complete, so nothing is lost but the time of a restart. The nodes are
drained, so the next run gets others. A machine that is going to be stopped is left before that, with the last
checkpoint that is complete by then.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection
from datetime import datetime, timedelta, timezone

from holdfast.errors import CommandError
from holdfast.faults import fault_of
from holdfast.policy.job.degraded_nodes import (
    DegradedFacts,
    Move,
    MoveLimits,
    decide,
    is_urgent,
)
from holdfast.policy.job.facts import JobDecision, Next
from holdfast.slurm.client import SlurmClient, SlurmJob
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.job.checkpoints.candidate import Checkpoint
from slurm_hooks.job.log import say
from slurm_hooks.job.outcome.checkpoints_left import Left, is_other
from slurm_hooks.job.outcome.node_faults import JobSnapshot, NodeFault
from slurm_hooks.job.step.run_step import StepEnd

_EVERY_S = 10.0
"""Between two looks at the free nodes, or at the checkpoints."""
_MOST_NAMED = 64
_NOT_FREE = frozenset(
    {
        *(NodeState.DRAIN, NodeState.NOT_RESPONDING, NodeState.RESERVED, NodeState.MAINTENANCE),
        *(NodeState.FAIL, NodeState.PLANNED, NodeState.POWERING_DOWN, NodeState.REBOOT_ISSUED),
    }
)


class DegradedNodes:
    """Of one attempt.

    ``number``  the signal that asks the program for a checkpoint; None: its next regular one is waited for.
    ``left``    what the attempt has left in the checkpoint folder until now.
    ``send``    passes a signal on to the command.
    ``idle``    how many nodes of the job's partition are free; None: not known.
    """

    def __init__(
        self,
        number: int | None,
        left: Callable[[], Left],
        send: Callable[[int], None],
        idle: Callable[[SlurmJob], int | None],
        limits: MoveLimits,
    ) -> None:
        self._number, self._left, self._send, self._idle = number, left, send, idle
        self._limits = limits
        self._asked_at: float | None = None
        self._urgent = False
        self._until: float | None = None
        self._looked_at = float("-inf")
        self._before: Checkpoint | None = None
        self._given_up: frozenset[SlurmName] = frozenset()
        """On these the job stays. Another node, or a machine that is stopped soon, is a new reason to leave."""
        self._nodes = self._why = ""

    @property
    def hurries(self) -> bool:
        """Is a machine of the job about to be stopped?"""
        return self._urgent

    def look(self, snapshot: JobSnapshot, now: float, at: float) -> str:
        """Why the step must end now; empty if it goes on. ``now``: ``time.monotonic``, ``at``: epoch seconds."""
        job, nodes = snapshot.job, to_leave(snapshot.faults or ())
        if self._why or job is None:
            return self._why
        if not nodes:
            if snapshot.faults is not None:
                self._forget()
            return ""
        self._until = _first_stop(nodes)
        left_s = None if self._until is None else self._until - at
        urgent = is_urgent(left_s, self._limits)
        names = frozenset(node.node for node in nodes)
        if names <= self._given_up and not urgent:
            return ""
        if self._given_up and not names <= self._given_up:
            self._asked_at, self._given_up = None, frozenset()
        often = urgent or now - self._looked_at >= _EVERY_S
        if not often or self._limits.patience_s <= 0:
            return ""
        self._looked_at, self._nodes = now, ", ".join(map(str, nodes))
        if urgent and not self._urgent:
            self._urgent, self._asked_at = True, None  # a checkpoint of long ago does not count
        asked_s = None if self._asked_at is None else now - self._asked_at
        newest = self._left().newest
        facts = DegradedFacts(
            count=len(nodes),
            requeue=job.requeue,
            idle=None if urgent else self._idle(job),
            asked_s=asked_s,
            written=asked_s is not None and is_other(newest, self._before),
            left_s=left_s,
        )
        move = decide(facts, self._limits)
        if move is Move.GIVE_UP:
            self._given_up = names
        self._act(move, newest, now)
        return self._why

    def _forget(self) -> None:
        """All nodes are in service."""
        if self._asked_at is not None:
            say(f"{self._nodes}: in service again; the job stays")
        self._asked_at, self._urgent, self._given_up = None, False, frozenset()

    def _act(self, move: Move, newest: Checkpoint | None, now: float) -> None:
        if move is Move.ASK:
            self._asked_at, self._before = now, newest
            self._ask()
        elif move is Move.WAIT:
            self._before = newest  # no free node at that one: the next one loses less
        elif move is Move.LEAVE:
            step = "" if newest is None or newest.step is None else f" from step {newest.step}"
            new = self._asked_at is not None and is_other(newest, self._before)
            when = "after a checkpoint" if new else f"without a new checkpoint{self._stop}"
            self._why = f"leaves {self._nodes} {when}; continues{step} on other nodes"
        elif move is Move.GIVE_UP:
            span = timedelta(seconds=round(self._limits.patience_s))
            say(f"{self._nodes}: no checkpoint and no other nodes within {span}; the job stays")

    @property
    def _stop(self) -> str:
        if self._until is None:
            return ""
        return f", as the machine is stopped at {datetime.fromtimestamp(self._until, timezone.utc):%H:%M:%S} UTC"

    def _ask(self) -> None:
        if self._number is None:
            say(f"degraded: {self._nodes}: the job leaves after its next checkpoint{self._stop}")
            return
        say(
            f"degraded: {self._nodes}: sending {signal.Signals(self._number).name}; the job leaves after its "
            f"next checkpoint{self._stop}"
        )
        self._send(self._number)

    def ended(self, end: StepEnd) -> JobDecision | None:
        """What to do after a step that ended to leave the nodes; None: it ended for another reason.

        A program may save and exit by itself after the signal, with status 0 or by the signal's default
        action.
        """
        if end.terminated:
            return None
        if self._why and end.ended_why == self._why:
            return JobDecision(next=Next.REQUEUE, why=self._why)
        if self._number is None or self._asked_at is None or end.ended_why:
            return None
        by_signal = end.user_signal == signal.strsignal(self._number)
        if not by_signal and (end.status != 0 or not is_other(self._left().newest, self._before)):
            return None
        why = f"leaves {self._nodes}; the program ended after {signal.Signals(self._number).name}"
        return JobDecision(next=Next.REQUEUE, why=why)


def to_leave(faults: Collection[NodeFault]) -> tuple[NodeFault, ...]:
    """The nodes that are degraded so that a job should leave them at its next checkpoint, and those whose
    machine is going to be stopped."""
    left = (fault for fault in faults if not fault.fatal)
    return tuple(fault for fault in left if fault.leave or fault_of(fault.code).moves_jobs)


def _first_stop(nodes: Collection[NodeFault]) -> float | None:
    """When the first of these machines is stopped, epoch seconds; ``None``: not known."""
    times = [node.leave.until for node in nodes if node.leave and node.leave.until is not None]
    return min(times, default=None)


def idle_nodes(slurm: SlurmClient, job: SlurmJob, job_nodes: Collection[SlurmName]) -> int | None:
    """How many nodes of the job's partition are free, of 64 at most. ``None``: no answer. Never raises."""
    try:
        free = [node.name for node in slurm.nodes_fast() if _is_free(node.states)]
        names = [name for name in free if name not in job_nodes][:_MOST_NAMED]
        found = slurm.nodes(names) if names else ()
    except CommandError:
        return None
    return sum(_is_free(node.states) and job.partition in node.partitions for node in found)


def _is_free(states: Collection[NodeState]) -> bool:
    return NodeState.IDLE in states and _NOT_FREE.isdisjoint(states)

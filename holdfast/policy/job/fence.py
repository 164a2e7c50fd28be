"""Never two writers: when the tasks of an attempt must stop, and how long the next attempt waits. Pure.

On each node, the tasks of an attempt have a lease. It is proved by the job's journal, which shows no newer
attempt: a node that can write checkpoints can read the journal beside them. A node that proves nothing for
``LEASE_S`` stops its tasks. The next attempt appends itself to the journal first. If it is not known that the
tasks before it have ended, it then waits: after ``WAIT_S`` each node has either read its entry and
ended them, or stopped them. Only durations of one clock are compared, so clocks may differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

POLL_S = 2.0
"""Between two looks at the journal."""
HURRY_S = 0.5
"""Between two looks at a lease that may end soon."""
LEASE_S = 6.0
SEEN_S = 3.0
"""By then each node that reaches the journal has seen a new entry in it, and ended its tasks."""
WAIT_S = 10.0
"""More than ``LEASE_S``: a busy machine may take seconds to stop its tasks."""
ASK_SLURM_S = 2.5
"""A lease without a proof for so long is a reason to ask slurmctld too."""


class Order(Enum):
    """What has to happen to the tasks of an attempt on a node."""

    GO_ON = "go on"
    STOP = "stop"
    """SIGSTOP: the next proof lets them go on. A storage that fails everywhere ends no job."""
    END = "end"
    """SIGKILL: a newer attempt has begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One attempt on one node. Times are seconds of this node's own steady clock.

    ``proved_at``   when the look began that proved it last.
    ``stopped``     it has run out: only the journal renews it.
    ``superseded``  a newer attempt has begun.
    """

    proved_at: float
    stopped: bool = False
    superseded: bool = False

    def read(self, began_at: float, *, newer: bool) -> Lease:
        """After a look at the journal that began at this time."""
        if newer:
            return replace(self, superseded=True)
        if began_at < self.proved_at:
            return self
        return replace(self, proved_at=began_at, stopped=False)

    def confirmed(self, began_at: float) -> Lease:
        """After slurmctld has answered, to a question of this time, that it runs this run of the job.

        That extends a lease and renews none: a slurmctld that was killed may have forgotten a requeue.
        """
        ran_out = self.stopped or began_at - self.proved_at > LEASE_S
        return self if ran_out else replace(self, proved_at=max(self.proved_at, began_at))

    def at(self, now: float) -> Lease:
        """With the time that has passed."""
        ran_out = now - self.proved_at > LEASE_S
        return replace(self, stopped=True) if ran_out and not self.stopped else self

    @property
    def order(self) -> Order:
        if self.superseded:
            return Order.END
        return Order.STOP if self.stopped else Order.GO_ON

    def asks_slurm(self, now: float) -> bool:
        return not self.stopped and now - self.proved_at > ASK_SLURM_S

    def look_again_s(self, now: float) -> float:
        """Seconds until it has to be looked at again."""
        return HURRY_S if self.order is not Order.GO_ON or self.asks_slurm(now) else POLL_S


class Ended(Enum):
    """What is known about the end of the last tasks before an attempt."""

    SEEN = "its launcher has seen it"
    BY_SLURM = "Slurm has ended it on each of its nodes, and all of them answer"
    UNKNOWN = "not known"


def wait_s(ended: Ended) -> float:
    """How long the next attempt waits between its entry in the journal and its first task.

    A node that answers slurmctld may have been cut off until a moment ago: slurmctld, or its agent, ends the
    tasks there now.
    """
    return {Ended.SEEN: 0.0, Ended.BY_SLURM: SEEN_S, Ended.UNKNOWN: WAIT_S}[ended]

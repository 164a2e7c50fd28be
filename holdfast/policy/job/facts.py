"""What the decision about a job depends on, and the decision itself: values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Protocol

from holdfast.vocabulary import SlurmName


class Next(str, Enum):
    """What the launcher does next."""

    FINISH = "finish"
    FAIL = "fail"
    """End the job as failed; it does not start again."""
    RESTART = "restart"
    """Start the ranks again in this allocation."""
    REQUEUE = "requeue"
    HOLD = "hold"
    """Requeue in the held state: a person has to release the job before it runs again."""


class FailureKind(str, Enum):
    """What the attempt's own output attributes the failure to."""

    UNKNOWN = "unknown"
    INFRASTRUCTURE = "infrastructure"
    """Hardware, or a part of the network that may belong to one node."""
    NODE = "node"
    """A fault of the node that the output names: another attempt there fails again."""
    OUTAGE = "outage"
    """Storage, the network or a service, with no node to blame: it works again after a while."""
    CHECKPOINT = "checkpoint"
    """The checkpoint cannot be loaded."""
    NUMERIC = "numeric"
    """NaN, or a loss that diverged: the newest checkpoints may hold it already."""
    USER = "user"
    """Deterministic: the same command fails the same way on any node."""
    MEMORY = "memory"
    """The kernel killed a task for the host's memory, which the job or something else on the node used up."""
    PROGRAM = "program"
    """The program cannot run: a syntax error or a missing module. No retry can succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvidence:
    """Evidence against a node of the job. ``out_of_service``: the node does not have to be listed in
    ExcNodeList, since Slurm allocates it to no new job, or since it is healthy again."""

    node: SlurmName
    code: str
    fatal: bool
    out_of_service: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PastAttempt:
    """How an attempt ended.

    ``fingerprint``  equal for failures of the same kind; empty: nothing to compare.
    ``progressed``   it left a newer checkpoint than it started from; None: unknown.
    ``kind``         what its output attributes the failure to.
    ``node_fault``   a node was at fault: no evidence against the job.
    ``charged``      False for preemption, a requeue by somebody, a launcher that was killed with its node.
    ``by_others``    Slurm or a person ended it: preemption, time limit, maintenance, scancel, requeue.
    ``settled``      it succeeded, or the job was held after it and a person has released it.
    ``suspects``     nodes that its output attributes the failure to.
    """

    fingerprint: str
    progressed: bool | None
    kind: FailureKind = FailureKind.UNKNOWN
    node_fault: bool = False
    charged: bool = True
    by_others: bool = False
    settled: bool = False
    suspects: frozenset[SlurmName] = frozenset()
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """Everything that the decision depends on.

    ``exit_code``    of the attempt; None: it was not started (a node was bad before).
    ``ended_by``     the job state with which Slurm ended it: ``CANCELLED``, ``TIMEOUT``, …; else empty.
    ``requeue``      the job may be requeued; None: slurmctld does not answer.
    ``nodes``        evidence against its nodes; None: unknown.
    ``current``      the attempt that just ended, in the same form as the earlier ones.
    ``past``         earlier attempts, oldest first.
    ``node_count``   nodes of the allocation.
    ``spares``       nodes of the cluster outside of it that are in service; None: unknown.
    ``job_fault``    an application fault that the nodes' agents found; empty: none.
    ``both_ends``    the suspects are the two ends of a transfer; they may be all nodes of the job.
    ``most_ranks``   most of its ranks failed by themselves with this error.
    ``next_checkpoint``  another checkpoint, which the next attempt tries because attempts from one or
                     more failed; empty: no checkpoint is suspected, or there is no other.
    """

    exit_code: int | None
    current: PastAttempt
    ended_by: str = ""
    requeue: bool | None = True
    nodes: tuple[NodeEvidence, ...] | None = ()
    past: Sequence[PastAttempt] = ()
    node_count: int = 1
    spares: int | None = None
    job_fault: str = ""
    both_ends: bool = False
    most_ranks: bool = False
    next_checkpoint: str = ""

    @property
    def kind(self) -> FailureKind:
        return self.current.kind


class RetryLimits(Protocol):
    """From the ``job`` section: attempts within 24 h, and equal failures, without progress."""

    @property
    def max_attempts(self) -> int: ...
    @property
    def max_same_failure(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDecision:
    """``exclude``: nodes that Slurm must not allocate to the requeued job. ``delay_s``: the wait before a
    restart in place.

    Nodes that are out of service are not excluded: Slurm does not allocate them anyway.
    """

    next: Next
    why: str
    exclude: tuple[SlurmName, ...] = ()
    delay_s: float = 0.0

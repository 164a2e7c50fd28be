"""The calls to Slurm that Holdfast makes: the protocol of every adapter, and the values in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from holdfast.node_states import BUSY
from holdfast.vocabulary import NodeState, SlurmName


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """One node as slurmctld sees it.

    ``states`` holds the base state and every flag. ``reason_at`` is in UTC; ``reason_user`` set the
    reason. ``unknown_states`` keeps the states that this version of Holdfast does not know.
    ``boot_at`` and ``slurmd_started_at`` are times of the node's own clock, as its slurmd registered
    them. ``partitions`` are filled in by a query for named nodes only, and ``reservation`` (the active one that
    the node is in), ``cpus`` (for jobs), ``gpus`` (as configured), ``address`` (NodeAddr) and ``port``
    (slurmd's) only by one for a single node.
    """

    name: SlurmName
    states: frozenset[NodeState]
    reason: str = ""
    reason_user: str = ""
    reason_at: datetime | None = None
    comment: str = ""
    instance_id: str = ""
    boot_at: datetime | None = None
    slurmd_started_at: datetime | None = field(default=None, compare=False)
    unknown_states: tuple[str, ...] = ()
    reservation: str = field(default="", compare=False)
    partitions: tuple[str, ...] = field(default=(), compare=False)
    cpus: int = field(default=0, compare=False)
    gpus: int = field(default=0, compare=False)
    address: str = field(default="", compare=False)
    port: int = field(default=0, compare=False)

    @property
    def drained_flag(self) -> bool:
        """True when the DRAIN flag is set (draining or drained) and no UNDRAIN is under way."""
        return NodeState.DRAIN in self.states and NodeState.UNDRAIN not in self.states

    @property
    def busy(self) -> bool:
        """True while a job or its epilog is on the node."""
        return bool(self.states & BUSY)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """One job as slurmctld sees it; ``restarts`` counts requeues, ``nodes`` is a hostlist.

    ``array_task`` names this job alone where ``job_id`` is ambiguous: one task of an array shares its
    number with the whole array, a het job's leader with all components. Empty where ``job_id`` is
    unambiguous. ``state`` is the base state and its flags joined by ``+``: ``PENDING`` means that the
    last run has left its nodes, ``PENDING+COMPLETING`` that it has not. ``expedited``: submitted with
    ``--requeue=expedite`` (Slurm 25.11 and newer). ``excluded`` and ``required``: hostlists of
    ``--exclude`` and ``--nodelist``. ``end_at`` of a running job: its time limit; None: it has none.
    """

    job_id: int
    name: str
    user: str
    state: str
    state_reason: str
    restarts: int
    requeue: bool
    expedited: bool = False
    nodes: str = ""
    batch_host: str = ""
    exit_code: str = ""
    excluded: str = ""
    required: str = ""
    start_at: datetime | None = None
    end_at: datetime | None = None
    partition: str = ""
    work_dir: str = ""
    admin_comment: str = ""
    array_task: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """One row of the queue. ``job`` as squeue names it, ``1234_5`` for a task of an array."""

    job: str
    state: str
    state_reason: str
    restarts: int
    user: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """A job in state RUNNING; an array task has a number of its own. ``start_at``: of this run."""

    job_id: int
    batch_host: str
    start_at: datetime


class SlurmClient(Protocol):
    """One cluster's Slurm. Every call is bounded in time.

    Raises ``Unavailable`` when slurmctld does not answer, ``Refused`` when it rejects the request.
    """

    def nodes(self, names: Sequence[SlurmName] = ()) -> list[SlurmNode]:
        """All nodes, or those named. An unknown name raises ``Refused``."""
        ...

    def nodes_fast(self) -> list[SlurmNode]:
        """All nodes with states, reason, user, time and comment only, at a small part of the cost. A node
        in no partition may be missing. The same list as before if nothing changed, where the adapter
        can tell.
        """
        ...

    def drain(self, names: Sequence[SlurmName], reason: str) -> None:
        """Set the DRAIN flag and the reason. Running jobs go on."""
        ...

    def undrain(self, names: Sequence[SlurmName]) -> None:
        """Clear the DRAIN flag, and nothing else (a DOWN node stays DOWN)."""
        ...

    def comment(self, names: Sequence[SlurmName], text: str) -> None:
        """Set the node's Comment; an empty text clears it."""
        ...

    def job(self, job_id: int) -> SlurmJob | None:
        """The job, or ``None`` when slurmctld no longer knows it."""
        ...

    def requeue(self, job_id: int) -> None:
        """Requeue the job: it is pending again, and its restart count grows."""
        ...

    def hold(self, job_id: int, why: str) -> None:
        """Requeue the job in hold: a person has to release it before it runs again."""
        ...

    def disable_requeue(self, job_id: int) -> None:
        """Set ``Requeue=0``: Slurm does not requeue the job again."""
        ...

    def start_now(self, job_id: int, exclude: Sequence[SlurmName] | None = None) -> None:
        """Set a pending job's start time to now, which skips Slurm's requeue delay.

        ``exclude`` becomes its ExcNodeList, also if it is empty; None: the list stays.
        """
        ...

    def clock(self) -> datetime:
        """slurmctld's own clock (UTC, whole seconds)."""
        ...

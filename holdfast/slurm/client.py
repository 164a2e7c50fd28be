"""What Holdfast asks of Slurm: the protocol that each adapter implements, and its values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from holdfast.vocabulary import NodeState, SlurmName


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """One node as slurmctld sees it.

    ``states`` holds the base state and every flag. ``reason_at`` is in UTC; ``reason_user`` is who
    set the reason. ``unknown_states`` keeps words that this version of Holdfast does not know.
    ``boot_at`` and ``slurmd_started_at`` are by the node's own clock, as its slurmd registered them.
    ``reservation`` (the active one it is in), ``partitions``, ``cpus`` (for jobs) and ``gpus`` (as
    configured) are known only when Slurm was asked for single nodes.
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

    @property
    def drained_flag(self) -> bool:
        """True when the DRAIN flag is set (draining or drained) and no UNDRAIN is under way."""
        return NodeState.DRAIN in self.states and NodeState.UNDRAIN not in self.states

    @property
    def busy(self) -> bool:
        """True while a job or its epilog is on the node."""
        return bool(
            self.states
            & {NodeState.ALLOCATED, NodeState.MIXED, NodeState.COMPLETING, NodeState.BLOCKED}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """One job as slurmctld sees it; ``restarts`` counts requeues, ``nodes`` is a hostlist.

    ``array_task`` names this job alone where ``job_id`` may mean more: one element of an array shares its
    number with the whole array, a het job's leader with all components. Empty: the number will do.
    ``state`` is the base state and its flags joined by ``+``: ``PENDING`` alone means that the last
    run has left its nodes, ``PENDING+COMPLETING`` that it has not.
    """

    job_id: int
    name: str
    user: str
    state: str
    state_reason: str
    restarts: int
    requeue: bool
    nodes: str = ""
    batch_host: str = ""
    exit_code: str = ""
    excluded: str = ""
    start_at: datetime | None = None
    partition: str = ""
    work_dir: str = ""
    admin_comment: str = ""
    array_task: str = ""


class Slurm(Protocol):
    """The calls that Holdfast makes. Every one is bounded in time.

    Raises ``Unavailable`` when slurmctld does not answer, ``Refused`` when it says no.
    """

    def nodes(self, names: Sequence[SlurmName] = ()) -> list[SlurmNode]:
        """All nodes, or those named. A name that Slurm does not know raises ``Refused``."""
        ...

    def drain(self, names: Sequence[SlurmName], reason: str) -> None: ...

    def undrain(self, names: Sequence[SlurmName]) -> None: ...

    def comment(self, names: Sequence[SlurmName], text: str) -> None: ...

    def job(self, job_id: int) -> SlurmJob | None:
        """The job, or ``None`` when slurmctld no longer knows it."""
        ...

    def requeue(self, job_id: int) -> None: ...

    def hold(self, job_id: int, why: str) -> None:
        """Requeue the job held, so that a person looks before it runs again."""
        ...

    def never_requeue(self, job_id: int) -> None:
        """Let nobody requeue the job any more (``Requeue=0``)."""
        ...

    def start_now(self, job_id: int, exclude: Sequence[SlurmName] = ()) -> None:
        """Move a pending job's start time up to now, skipping Slurm's requeue delay."""
        ...

    def clock(self) -> datetime:
        """slurmctld's own clock (UTC, whole seconds)."""
        ...

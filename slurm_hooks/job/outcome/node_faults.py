"""The job and its nodes as Slurm reports them, and the faults of those nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from holdfast.errors import CommandError, NotInstalled, Unavailable
from holdfast.faults import severity_of
from holdfast.node_states import JOBS_LOST
from holdfast.reason import Reason
from holdfast.records import incidents
from holdfast.records.incidents import Incident
from holdfast.records.leave import Leave, leave_of
from holdfast.slurm.client import SlurmClient, SlurmJob, SlurmNode
from holdfast.vocabulary import Severity, SlurmName

_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 10.0
DOWN = "DOWN"

ENDED_BY_SLURM = frozenset(
    {
        "CANCELLED",
        "TIMEOUT",
        "DEADLINE",
        "PREEMPTED",
        "REVOKED",
        "NODE_FAIL",
        "BOOT_FAIL",
        "FAILED",
        "OUT_OF_MEMORY",
        "COMPLETED",
        "PENDING",
        "SUSPENDED",
    }
)
"""Job states in which Slurm or a user has ended the job already. PENDING: it is requeued. FAILED,
OUT_OF_MEMORY and COMPLETED: the batch script is gone, and this launcher ends soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFault:
    """Why a node of the job must not be used: Holdfast drained it for ``code``, Slurm has it ``DOWN``,
    or it had a fault while the job ran there.

    ``fatal``           work on it is lost; otherwise the node is degraded and running work may go on.
    ``gpu``             index of the faulty GPU, if it is one GPU.
    ``out_of_service``  Slurm starts no new job on the node.
    ``usable_again``    only this run's processes were lost; the next run may use the node.
    ``leave``           the bridge tells running jobs to leave, as the machine is going to be stopped.
    """

    node: SlurmName
    code: str
    detail: str
    fatal: bool
    gpu: int | None = None
    out_of_service: bool = True
    usable_again: bool = False
    leave: Leave | None = None

    @property
    def is_gone(self) -> bool:
        """No process can be asked there: the node is DOWN, or has lost the job's processes."""
        return self.code == DOWN or self.usable_again

    def record(self) -> dict[str, object]:
        """For the journal."""
        return {
            "node": self.node,
            "code": self.code,
            "detail": self.detail,
            "fatal": self.fatal,
            "gpu": self.gpu,
            "out_of_service": self.out_of_service,
            "usable_again": self.usable_again,
        }

    def __str__(self) -> str:
        return f"{self.node} ({self.code}{': ' + self.detail if self.detail else ''})"


def fault_of(node: SlurmNode) -> NodeFault | None:
    """The fault of a node according to Slurm or Holdfast. A person's drain is no fault (rule 3)."""
    if node.states & JOBS_LOST:
        return NodeFault(node=node.name, code=DOWN, detail=node.reason, fatal=True)
    reason = Reason.parse(node.reason) if node.drained_flag else None
    if reason is None:
        return None
    return NodeFault(
        node=node.name,
        code=reason.code,
        detail=reason.detail,
        fatal=severity_of(reason.code) is Severity.FATAL,
        gpu=_index(reason.pairs.get("gpu", "")),
        leave=leave_of(reason),
    )


def _index(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def faults(nodes: Sequence[SlurmNode]) -> tuple[NodeFault, ...]:
    """The faults of the job's nodes, fatal ones first."""
    found = [fault for fault in map(fault_of, nodes) if fault]
    return tuple(sorted(found, key=lambda fault: not fault.fatal))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSnapshot:
    """The job and its nodes' faults as slurmctld reports them; ``None``: no answer (rule 2).

    ``silent``  slurmctld did not answer, and may do so later. False with ``job`` None: it knows no such job.
    """

    job: SlurmJob | None
    faults: tuple[NodeFault, ...] | None
    nodes: tuple[SlurmNode, ...] = ()
    silent: bool = False

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """The incidents of this run of the job, which agents write to its AdminComment."""
        if self.job is None:
            return ()
        entries = incidents.parse(self.job.admin_comment)
        own = (entry for entry in entries if entry.run == self.job.restarts)
        return tuple(entry for entry in own if entry.code != incidents.NODE_TESTED)

    @property
    def tested(self) -> dict[SlurmName, datetime]:
        """Nodes that the job has excluded and that have passed an inspection since, and when last."""
        entries = incidents.parse(self.job.admin_comment) if self.job else ()
        return {
            SlurmName(entry.node): datetime.fromtimestamp(entry.at, timezone.utc)
            for entry in sorted(entries, key=lambda entry: entry.at)
            if entry.code == incidents.NODE_TESTED
        }

    @property
    def ended_by_slurm(self) -> bool:
        """True when Slurm or a user has ended the job (scancel, time limit, requeue)."""
        return self.job is not None and bool(ENDED_BY_SLURM & set(self.job.state.split("+")))


def read_snapshot(slurm: SlurmClient, job_id: int, nodes: Sequence[SlurmName]) -> JobSnapshot:
    """Queries slurmctld once. Never raises."""
    job, silent = None, False
    try:
        job = slurm.job(job_id)
    except CommandError as error:
        silent = _may_answer_later(error)
    try:
        found = tuple(slurm.nodes(nodes))
    except CommandError as error:
        silent = silent or _may_answer_later(error)
        return JobSnapshot(job=job, faults=None, silent=silent)
    return JobSnapshot(job=job, faults=faults(found), nodes=found, silent=silent)


def _may_answer_later(error: CommandError) -> bool:
    """Without scontrol on this node there never was an answer, so no attempt waits for one."""
    return isinstance(error, Unavailable) and not isinstance(error, NotInstalled)


def spare_nodes(slurm: SlurmClient, job_nodes: Collection[SlurmName]) -> int | None:
    """How many nodes of the cluster, outside of the job, Slurm may allocate sooner or later; of all
    partitions, so the job may use fewer. ``None``: no answer. Never raises."""
    try:
        found = slurm.nodes_fast()
    except CommandError:
        return None
    others = [node for node in found if node.name not in job_nodes]
    return sum(not (node.drained_flag or node.states & JOBS_LOST) for node in others)


def with_lost(snapshot: JobSnapshot, lost: Sequence[NodeFault]) -> JobSnapshot:
    """The snapshot with nodes that are in service but have lost the job's processes."""
    known = {fault.node for fault in snapshot.faults or () if fault.fatal}
    more = tuple(fault for fault in lost if fault.node not in known)
    return replace(snapshot, faults=(*more, *(snapshot.faults or ()))) if more else snapshot


def look_until_answered(
    look_once: Callable[[], JobSnapshot],
    *,
    patience_s: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    stop: Callable[[], bool],
) -> JobSnapshot:
    """Looks again while slurmctld does not answer, for ``patience_s`` or until ``stop``.

    What follows an attempt depends on the job and its nodes: without them a job of ``--no-requeue`` would
    be restarted, or one that was cancelled.
    """
    end, pause_s = clock() + patience_s, _PAUSE_S
    while True:
        snapshot = look_once()
        if not snapshot.silent or stop() or clock() + pause_s > end:
            return snapshot
        sleep(pause_s)
        pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)


def look_until_fatal(
    look_once: Callable[[], JobSnapshot],
    *,
    wait_s: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> JobSnapshot:
    """Looks again until a fatal fault shows or ``wait_s`` is over.

    Ranks often fail some 100 ms before their node's agent has drained the node.
    """
    end = clock() + wait_s
    while True:
        snapshot = look_once()
        settled = snapshot.ended_by_slurm or any(fault.fatal for fault in snapshot.faults or ())
        if settled or clock() >= end:
            return snapshot
        sleep(_PAUSE_S)

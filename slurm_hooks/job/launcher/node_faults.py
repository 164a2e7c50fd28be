"""What is known about an attempt's end: the job's nodes in Slurm, how the step died, what its
output says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from holdfast import incidents
from holdfast.errors import CommandError
from holdfast.faults import severity_of
from holdfast.incidents import Incident
from holdfast.node_states import JOBS_LOST
from holdfast.reason import Reason
from holdfast.slurm.client import SlurmClient, SlurmJob, SlurmNode
from holdfast.vocabulary import Severity, SlurmName

_PAUSE_S = 0.25

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
"""Job states in which somebody else has decided already. PENDING: it is requeued. FAILED and the two
after it: the batch script is gone, and this launcher is about to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFault:
    """Why a node of the job must not be used: drained by Holdfast for ``code``, or ``DOWN`` to
    Slurm, or hit by a fault of its own while the job ran there.

    ``fatal``  work on it is lost; otherwise the node is degraded and running work may go on.
    ``gpu``    index of the one GPU at fault, if it is one.
    ``out_of_service``    Slurm gives the node to no new job by itself.
    ``sound``  lost to this run of the job alone: the next one may have the node.
    """

    node: SlurmName
    code: str
    detail: str
    fatal: bool
    gpu: int | None = None
    out_of_service: bool = True
    sound: bool = False

    def record(self) -> dict[str, object]:
        """For the journal."""
        return {
            "node": self.node,
            "code": self.code,
            "detail": self.detail,
            "fatal": self.fatal,
            "gpu": self.gpu,
            "out_of_service": self.out_of_service,
            "sound": self.sound,
        }

    def __str__(self) -> str:
        return f"{self.node} ({self.code}{': ' + self.detail if self.detail else ''})"


def fault_of(node: SlurmNode) -> NodeFault | None:
    """What is wrong with a node, if Slurm or Holdfast says so. A human's drain is no fault (law
    3).
    """
    if node.states & JOBS_LOST:
        return NodeFault(node=node.name, code="DOWN", detail=node.reason, fatal=True)
    reason = Reason.parse(node.reason) if node.drained_flag else None
    if reason is None:
        return None
    return NodeFault(
        node=node.name,
        code=reason.code,
        detail=reason.detail,
        fatal=severity_of(reason.code) is Severity.FATAL,
        gpu=_index(reason.pairs.get("gpu", "")),
    )


def _index(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def faults(nodes: Sequence[SlurmNode]) -> tuple[NodeFault, ...]:
    """The faults of the job's nodes, fatal ones first."""
    found = [fault for fault in map(fault_of, nodes) if fault]
    return tuple(sorted(found, key=lambda fault: not fault.fatal))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The job and its nodes' faults as slurmctld tells them; ``None``: it did not answer (law
    2).
    """

    job: SlurmJob | None
    faults: tuple[NodeFault, ...] | None
    nodes: tuple[SlurmNode, ...] = ()

    @property
    def told(self) -> tuple[Incident, ...]:
        """What the agents of the job's nodes have told of this run of it, in its AdminComment."""
        if self.job is None:
            return ()
        entries = incidents.parse(self.job.admin_comment)
        return tuple(entry for entry in entries if entry.run == self.job.restarts)

    @property
    def ended_by_slurm(self) -> bool:
        """The job's state says that somebody else has decided (scancel, time limit, requeue)."""
        return self.job is not None and bool(ENDED_BY_SLURM & set(self.job.state.split("+")))


def look(slurm: SlurmClient, job_id: int, nodes: Sequence[SlurmName]) -> Sight:
    """One look, never raises."""
    try:
        job = slurm.job(job_id)
    except CommandError:
        job = None
    try:
        found = tuple(slurm.nodes(nodes))
    except CommandError:
        return Sight(job=job, faults=None)
    return Sight(job=job, faults=faults(found), nodes=found)


def with_lost(sight: Sight, lost: Sequence[NodeFault]) -> Sight:
    """The sight with nodes that are in service again and lost the job's processes before."""
    known = {fault.node for fault in sight.faults or () if fault.fatal}
    more = tuple(fault for fault in lost if fault.node not in known)
    return replace(sight, faults=(*more, *(sight.faults or ()))) if more else sight


def look_until_fatal(
    see: Callable[[], Sight],
    *,
    wait_s: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> Sight:
    """Looks again until a fatal fault shows or ``wait_s`` is over.

    Ranks often die some 100 ms before their node's agent has drained it.
    """
    end = clock() + wait_s
    while True:
        sight = see()
        settled = sight.ended_by_slurm or any(fault.fatal for fault in sight.faults or ())
        if settled or clock() >= end:
            return sight
        sleep(_PAUSE_S)

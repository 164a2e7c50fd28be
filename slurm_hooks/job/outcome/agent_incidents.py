"""The incidents that the nodes' agents reported for an attempt, and how they change the decision.

An application's fault (an Xid 13, 31, 43 …) is attributed to the job and clears its nodes: the
output of ranks whose peer crashed often names a healthy host. A fault of the machine names node and
GPU, also where the node could not be taken out of service (the budget). Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from holdfast.faults import fault_of
from holdfast.policy.job.facts import FailureKind
from holdfast.records.incidents import STEPD_KILLED, Attribution, Incident, verdict
from holdfast.vocabulary import Severity, SlurmName
from slurm_hooks.job.outcome.attempt_end import AttemptEnd
from slurm_hooks.job.outcome.lost_nodes import CODE as LOST
from slurm_hooks.job.outcome.node_faults import JobSnapshot, NodeFault


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentIncidents:
    """The incidents that are new since the attempt began."""

    entries: tuple[Incident, ...] = ()

    @property
    def attribution(self) -> Attribution:
        return verdict(self.entries)

    @property
    def job_fault(self) -> str:
        """The application's fault as text; empty where it is not the application's."""
        if self.attribution is not Attribution.JOB:
            return ""
        faults = (entry for entry in self.entries if entry.attribution is Attribution.JOB)
        return ", ".join(map(_text, faults))

    @property
    def fatal_nodes(self) -> frozenset[SlurmName]:
        """Nodes whose agents report that work on them is lost."""
        return frozenset(
            SlurmName(entry.node) for entry in self.entries if _is_fatal_for_node(entry)
        )

    def lost_processes(self, nodes: Collection[SlurmName]) -> tuple[NodeFault, ...]:
        """The nodes of the job on which a slurmstepd of it was killed: its step cannot end by itself."""
        killed = {
            SlurmName(entry.node): entry for entry in self.entries if entry.code == STEPD_KILLED
        }
        return tuple(
            NodeFault(
                node=node,
                code=LOST,
                detail=f"the slurmstepd of step {entry.step} was killed",
                fatal=True,
                out_of_service=False,
                usable_again=True,
            )
            for node, entry in killed.items()
            if node in nodes
        )

    def of_nodes(self) -> list[str]:
        """The nodes with an incident that is not the job's, each with its code."""
        return [
            f"{e.node} ({e.code})" for e in self.entries if e.attribution is not Attribution.JOB
        ]

    def records(self) -> list[dict[str, object]]:
        """For the journal."""
        return [entry.record() for entry in self.entries]

    def attribution_with(self, snapshot: JobSnapshot) -> Attribution:
        """The attribution by these incidents and by the state of the nodes in Slurm: a drain arrives
        before a comment."""
        fatal = any(fault.fatal for fault in snapshot.faults or ())
        return Attribution.NODE if fatal else self.attribution

    def applied_to(self, ended: AttemptEnd, snapshot: JobSnapshot) -> AttemptEnd:
        """How the attempt ended, corrected by these incidents: an application's fault suspects no
        node."""
        job_faults = (entry for entry in self.entries if entry.attribution is Attribution.JOB)
        first = next(job_faults, None)
        if self.attribution_with(snapshot) is not Attribution.JOB or first is None:
            return ended
        own = ended.kind in (FailureKind.USER, FailureKind.PROGRAM, FailureKind.MEMORY)
        kind = ended.kind if own else FailureKind.UNKNOWN
        fingerprint = ended.fingerprint if ended.cause else f"xid:{first.code}"
        return replace(ended, kind=kind, suspects=frozenset(), fingerprint=fingerprint)


def since(before: Iterable[Incident], snapshot: JobSnapshot) -> AgentIncidents:
    """The incidents reported after ``before``: those of an earlier attempt do not count for this one."""
    old = set(before)
    return AgentIncidents(entries=tuple(entry for entry in snapshot.incidents if entry not in old))


def with_incidents(
    snapshot: JobSnapshot, reported: AgentIncidents, nodes: Sequence[SlurmName]
) -> JobSnapshot:
    """The snapshot with the reported fatal faults of nodes that are still in service in Slurm."""
    if snapshot.faults is None and not reported.entries:
        return snapshot
    known = {fault.node for fault in snapshot.faults or ()}
    more = {
        entry.node: _fault(entry)
        for entry in reported.entries
        if _is_fatal_for_node(entry) and entry.node in nodes and SlurmName(entry.node) not in known
    }
    if not more:
        return snapshot
    return replace(snapshot, faults=(*more.values(), *(snapshot.faults or ())))


def _is_fatal_for_node(entry: Incident) -> bool:
    return (
        entry.attribution is Attribution.NODE
        and entry.severity is Severity.FATAL
        and not entry.observe_only
    )


def _fault(entry: Incident) -> NodeFault:
    return NodeFault(
        node=SlurmName(entry.node),
        code=entry.code,
        detail=f"{fault_of(entry.code).title}, reported by the node's agent while the job ran",
        fatal=True,
        gpu=entry.gpu,
        out_of_service=False,
    )


def _text(entry: Incident) -> str:
    gpu = f" GPU {entry.gpu}" if entry.gpu is not None else ""
    step = f", step {entry.step}" if entry.step else ""
    times = f", {entry.count} times" if entry.count > 1 else ""
    return f"{entry.code} ({fault_of(entry.code).title}) on {entry.node}{gpu}{step}{times}"

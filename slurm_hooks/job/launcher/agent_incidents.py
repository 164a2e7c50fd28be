"""What the agents told of an attempt, and what follows for the launcher. Pure.

An application's fault (an Xid 13, 31, 43 …) speaks against the job and clears its nodes: the output
of ranks whose peer crashed often blames a host. A fault of the machine names node and GPU, also
where the node itself could not be taken out of service (the budget).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from holdfast.faults import fault_of
from holdfast.incidents import Attribution, Incident, verdict
from holdfast.policy.job import FailureKind
from holdfast.vocabulary import Severity, SlurmName
from slurm_hooks.job.launcher.node_faults import NodeFault, Sight
from slurm_hooks.job.launcher.outcome import AttemptEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentIncidents:
    """The entries that are new since the attempt began."""

    entries: tuple[Incident, ...] = ()

    @property
    def blames(self) -> Attribution:
        return verdict(self.entries)

    @property
    def attribution(self) -> str:
        """The application's fault in words; empty where it is not the application's."""
        if self.blames is not Attribution.JOB:
            return ""
        return ", ".join(_words(one) for one in self.entries if one.attribution is Attribution.JOB)

    @property
    def fatal_nodes(self) -> frozenset[SlurmName]:
        """Nodes whose agents say that work on them is lost."""
        return frozenset(SlurmName(one.node) for one in self.entries if _condemns(one))

    def records(self) -> list[dict[str, object]]:
        """For the journal."""
        return [entry.record() for entry in self.entries]

    def blames_with(self, sight: Sight) -> Attribution:
        """Whose fault it was, by this and by what Slurm says of the nodes: a drain is quicker than a
        comment."""
        fatal = any(fault.fatal for fault in sight.faults or ())
        return Attribution.NODE if fatal else self.blames

    def cleared(self, ended: AttemptEnd, sight: Sight) -> AttemptEnd:
        """How the attempt ended, in the light of this."""
        first = next((one for one in self.entries if one.attribution is Attribution.JOB), None)
        if self.blames_with(sight) is not Attribution.JOB or first is None:
            return ended
        kind = ended.kind if ended.kind is FailureKind.USER else FailureKind.UNKNOWN
        fingerprint = ended.fingerprint if ended.cause else f"xid:{first.code}"
        return replace(ended, kind=kind, suspects=frozenset(), fingerprint=fingerprint)


def since(before: Iterable[Incident], sight: Sight) -> AgentIncidents:
    """What was told after ``before``. An attempt in place must not answer for the one before it."""
    old = set(before)
    return AgentIncidents(entries=tuple(entry for entry in sight.told if entry not in old))


def with_told(sight: Sight, told: AgentIncidents, nodes: Sequence[SlurmName]) -> Sight:
    """The sight with the fatal faults of machines that Slurm does not know as out of service."""
    if sight.faults is None and not told.entries:
        return sight
    known = {fault.node for fault in sight.faults or ()}
    more = {
        entry.node: _fault(entry)
        for entry in told.entries
        if _condemns(entry) and entry.node in nodes and SlurmName(entry.node) not in known
    }
    if not more:
        return sight
    return replace(sight, faults=(*more.values(), *(sight.faults or ())))


def _condemns(entry: Incident) -> bool:
    return (
        entry.attribution is Attribution.NODE
        and entry.severity is Severity.FATAL
        and not entry.observe_only
    )


def _fault(entry: Incident) -> NodeFault:
    return NodeFault(
        node=SlurmName(entry.node),
        code=entry.code,
        detail=f"{fault_of(entry.code).title}, seen by the node's agent while the job ran",
        fatal=True,
        gpu=entry.gpu,
        out_of_service=False,
    )


def _words(entry: Incident) -> str:
    gpu = f" GPU {entry.gpu}" if entry.gpu is not None else ""
    step = f", step {entry.step}" if entry.step else ""
    times = f", {entry.count} times" if entry.count > 1 else ""
    return f"{entry.code} ({fault_of(entry.code).title}) on {entry.node}{gpu}{step}{times}"

"""The job and its nodes, as Slurm, the nodes and their agents report them to the launcher."""

from __future__ import annotations

from functools import cached_property

from holdfast.records.incidents import Incident
from holdfast.slurm.client import SlurmClient
from holdfast.slurm.hostlist import expand
from holdfast.vocabulary import SlurmName
from slurm_hooks.job.environment import JobContext
from slurm_hooks.job.outcome.agent_incidents import AgentIncidents, since
from slurm_hooks.job.outcome.lost_nodes import LostNodes
from slurm_hooks.job.outcome.node_faults import JobSnapshot, read_snapshot, with_lost
from slurm_hooks.job.step.node_steps import EXTERN, steps_here, steps_on

_QUERY_TIMEOUT_S = 15.0
"""For nodes whose slurmd has restarted to answer."""


class JobLook:
    """``name``: the job as people name it, ``7_3`` for a task of an array. ``earlier``: the incidents
    from before the present attempt. ``expedited``: it was submitted with ``--requeue=expedite``.
    """

    def __init__(self, context: JobContext, slurm: SlurmClient) -> None:
        self._context, self._slurm = context, slurm
        job_id = context.job_id
        self._lost = LostNodes(
            lambda nodes: steps_on(job_id, nodes, _QUERY_TIMEOUT_S),
            contained=EXTERN in steps_here(job_id),
        )
        self.name = str(job_id)
        self.earlier: tuple[Incident, ...] = ()
        self.expedited = False

    @cached_property
    def nodes(self) -> tuple[SlurmName, ...]:
        return tuple(SlurmName(name) for name in expand(self._context.nodes))

    def look(self) -> JobSnapshot:
        """The job and its nodes now; nodes that slurmctld suspects are asked for the job."""
        snapshot = self._read()
        return with_lost(snapshot, self._lost.among(snapshot.nodes))

    def look_with_incidents(self) -> JobSnapshot:
        """As ``look``, and also checks nodes whose agents report a fatal fault or a killed slurmstepd in
        this attempt."""
        snapshot = self._read()
        reported = self.reported(snapshot)
        lost = self._lost.among(snapshot.nodes, reported.fatal_nodes)
        return with_lost(snapshot, (*lost, *reported.lost_processes(self.nodes)))

    def reported(self, snapshot: JobSnapshot) -> AgentIncidents:
        """The incidents that agents reported in this attempt."""
        return since(self.earlier, snapshot)

    def are_nodes_healthy(self, snapshot: JobSnapshot) -> bool:
        """True when no node has a known fatal fault. A step that Slurm cancels for a lost node looks
        like one that a user cancelled."""
        if snapshot.faults is None or self.reported(snapshot).fatal_nodes:
            return False
        return not any(fault.fatal for fault in snapshot.faults)

    def _read(self) -> JobSnapshot:
        snapshot = read_snapshot(self._slurm, self._context.job_id, self.nodes)
        if snapshot.job is not None:
            self.expedited = snapshot.job.expedited
            if "_" in snapshot.job.array_task:
                self.name = snapshot.job.array_task
        return snapshot

"""Nodes of the job that are in service and have lost its processes: power-cycled, rebooted, or
restarted in a new pod.

srun does not notice. Nothing closes its connections when the power fails, and with
``enable_stepmgr`` slurmctld does not know the step. The node may be healthy and back in service
before the launcher looks at it again.

A slurmd that has restarted since the launcher's first look is only a hint. The launcher compares for
change, because both times come from the node's clock, which may be wrong or be corrected meanwhile.
If only slurmd restarted, its slurmstepds are still alive. So the launcher queries the node itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.job.outcome.node_faults import NodeFault, fault_of
from slurm_hooks.job.step.node_steps import EXTERN

CODE = "LOST"
_UNANSWERED = 3
"""After so many failed queries, the change of the node's boot time decides."""


class _Start(NamedTuple):
    boot_at: datetime | None
    slurmd_at: datetime | None


class LostNodes:
    """Compares the job's nodes with their state at the first look. Thread-safe.

    ``query``      returns which steps of the job have a slurmstepd on each of these nodes, without
                   the nodes that do not answer.
    ``contained``  each node of the job has an extern step (PrologFlags=contain), so a node without
                   any slurmstepd of the job has lost the job's processes.
    """

    def __init__(
        self,
        query: Callable[[Sequence[SlurmName]], Mapping[str, frozenset[str]]],
        *,
        contained: bool,
    ) -> None:
        self._query, self._contained = query, contained
        self._first: dict[SlurmName, _Start] = {}
        self._answered: dict[SlurmName, tuple[_Start, bool]] = {}
        self._silent: dict[SlurmName, int] = {}
        self._lost: dict[SlurmName, NodeFault] = {}
        self._lock = threading.Lock()

    def among(
        self, nodes: Sequence[SlurmNode], reported: Collection[SlurmName] = ()
    ) -> tuple[NodeFault, ...]:
        """The lost nodes. ``reported``: nodes whose agents report a fatal fault. Such a node is
        lost if no step of the job runs on it."""
        with self._lock:
            due = [node for node in nodes if self._is_due(node, node.name in reported)]
            steps = self._query([node.name for node in due]) if due else {}
            for node in due:
                self._judge(node, steps.get(node.name), node.name in reported)
            return tuple(self._lost.values())

    def _is_due(self, node: SlurmNode, reported: bool) -> bool:
        now = _Start(node.boot_at, node.slurmd_started_at)
        if node.name in self._lost or now.slurmd_at is None:
            return False
        first = self._first.setdefault(node.name, now)
        if NodeState.NOT_RESPONDING in node.states or _is_out_of_service(node):
            return False  # the node cannot answer, or its fault is known already
        if now == first and not reported:
            return False
        return self._answered.get(node.name) != (now, reported)

    def _judge(self, node: SlurmNode, steps: frozenset[str] | None, reported: bool) -> None:
        now = _Start(node.boot_at, node.slurmd_started_at)
        booted = now.boot_at != self._first[node.name].boot_at
        if steps is None:
            self._silent[node.name] = self._silent.get(node.name, 0) + 1
            if booted and self._silent[node.name] >= _UNANSWERED:
                self._mark_lost(node, "its boot time changed, and it does not report its steps")
        elif not steps and (self._contained or booted or reported):
            self._mark_lost(node, "no step of the job is running there")
        elif reported and not steps - {EXTERN}:
            self._mark_lost(node, "its agent reports a fatal fault, and no task is running there")
        else:
            self._silent.pop(node.name, None)
            self._answered[node.name] = (now, reported)

    def _mark_lost(self, node: SlurmNode, detail: str) -> None:
        first = self._first[node.name].slurmd_at
        restarted = "" if node.slurmd_started_at == first else "slurmd restarted; "
        self._lost[node.name] = NodeFault(
            node=node.name,
            code=CODE,
            detail=restarted + detail,
            fatal=True,
            out_of_service=False,
            usable_again=True,
        )


def _is_out_of_service(node: SlurmNode) -> bool:
    fault = fault_of(node)
    return fault is not None and fault.fatal

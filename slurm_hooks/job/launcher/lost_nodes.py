"""Nodes of the job that are in service and have lost its processes: power-cycled, booted, or started
again in a new pod.

srun does not hear of such an end. Nothing closes its connections when the power goes, and where steps
have a manager of their own (``enable_stepmgr``) slurmctld knows no step to tell it of. The node may be
healthy again before the next look, with its drain undone.

That slurmd has started again since the launcher's first look only raises the question: the comparison
is for change, because both times are by the node's clock, which may be wrong or set right meanwhile.
A slurmd that was merely restarted finds its slurmstepds alive, so the node itself is asked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.job.launcher.node_faults import NodeFault, fault_of
from slurm_hooks.job.step.node_steps import EXTERN

CODE = "LOST"
_UNANSWERED = 3
"""So often a node may fail to answer; then the change of its boot time decides."""


class _Start(NamedTuple):
    boot_at: datetime | None
    slurmd_at: datetime | None


class LostNodes:
    """Remembers how the job's nodes were at the first look. Safe to use from several threads.

    ``ask``        which steps of the job have a slurmstepd on each of these nodes; a node that does
                   not answer is left out.
    ``contained``  each node of the job has an extern step (PrologFlags=contain), so a node without
                   any slurmstepd of the job is lost to it.
    """

    def __init__(
        self,
        ask: Callable[[Sequence[SlurmName]], Mapping[str, frozenset[str]]],
        *,
        contained: bool,
    ) -> None:
        self._ask, self._contained = ask, contained
        self._first: dict[SlurmName, _Start] = {}
        self._answered: dict[SlurmName, tuple[_Start, bool]] = {}
        self._silent: dict[SlurmName, int] = {}
        self._lost: dict[SlurmName, NodeFault] = {}
        self._lock = threading.Lock()

    def among(
        self, nodes: Sequence[SlurmNode], blamed: Collection[SlurmName] = ()
    ) -> tuple[NodeFault, ...]:
        """The lost ones. ``blamed``: nodes whose agents say that work on them is lost; without a
        running step they are lost, too."""
        with self._lock:
            due = [node for node in nodes if self._is_due(node, node.name in blamed)]
            said = self._ask([node.name for node in due]) if due else {}
            for node in due:
                self._judge(node, said.get(node.name), node.name in blamed)
            return tuple(self._lost.values())

    def _is_due(self, node: SlurmNode, blamed: bool) -> bool:
        now = _Start(node.boot_at, node.slurmd_started_at)
        if node.name in self._lost or now.slurmd_at is None:
            return False
        first = self._first.setdefault(node.name, now)
        if NodeState.NOT_RESPONDING in node.states or _is_out(node):
            return False  # no answer to be had, or a fault without one
        if now == first and not blamed:
            return False
        return self._answered.get(node.name) != (now, blamed)

    def _judge(self, node: SlurmNode, steps: frozenset[str] | None, blamed: bool) -> None:
        now = _Start(node.boot_at, node.slurmd_started_at)
        booted = now.boot_at != self._first[node.name].boot_at
        if steps is None:
            self._silent[node.name] = self._silent.get(node.name, 0) + 1
            if booted and self._silent[node.name] >= _UNANSWERED:
                self._lose(node, "its boot time changed, and it does not say what runs there")
        elif not steps and (self._contained or booted or blamed):
            self._lose(node, "none of the job's steps is left there")
        elif blamed and not steps - {EXTERN}:
            self._lose(node, "its agent found a fatal fault, and no task is left there")
        else:
            self._silent.pop(node.name, None)
            self._answered[node.name] = (now, blamed)

    def _lose(self, node: SlurmNode, detail: str) -> None:
        first = self._first[node.name].slurmd_at
        again = "" if node.slurmd_started_at == first else "slurmd started again; "
        self._lost[node.name] = NodeFault(
            node=node.name,
            code=CODE,
            detail=again + detail,
            fatal=True,
            out_of_service=False,
            sound=True,
        )


def _is_out(node: SlurmNode) -> bool:
    fault = fault_of(node)
    return fault is not None and fault.fatal

"""Reads the state of this node, and the table of all nodes, from slurmctld."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from holdfast.errors import CommandError, Refused
from holdfast.policy.budget import Admission, Count
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.parse.sdiag import NodeChanges
from holdfast.slurm.reservations import SlurmMaintenance
from holdfast.vocabulary import SlurmName
from slurm_hooks.settings.sections import BudgetConfig


@dataclass(frozen=True, slots=True)
class Counted:
    """What a decision knows of the budget: all nodes, or the proof that it has room. Both None: the step asks
    nothing of the budget."""

    table: Sequence[SlurmNode] | None = None
    proof: Admission | None = None


@dataclass(slots=True)
class NodeTable:
    """slurmctld's rows. Every call may raise CommandError. ``count``: the newest count of all nodes."""

    slurm: SlurmMaintenance
    name: SlurmName
    limits: BudgetConfig
    count: Count | None = None
    known: SlurmNode | None = None
    """This node, as it was read in full before. What Slurm itself changes of it is read again."""

    def counted(self, code: str, *, exact: bool = False) -> Counted:
        """What the budget says to the fault ``code``. In a large cluster the number of changes since the last
        count may prove that it has room, unless ``exact``: it costs slurmctld much less than to send all
        nodes, which a thousand agents must not do at once."""
        changes: NodeChanges | None = None
        if self.count is not None and self.count.may_prove(self.limits):
            with suppress(CommandError):
                changes = self.slurm.node_changes()
        if self.count is not None and changes is not None and not exact:
            proof = self.count.admits(changes.changes, changes.counted_since, self.limits, code)
            if proof is not None:
                return Counted(proof=proof)
        table = self.all_nodes()
        if changes is not None:
            self.count = Count.of(table, changes.changes, changes.counted_since)
        return Counted(table=table)

    def all_nodes(self) -> list[SlurmNode]:
        """Every node. sinfo leaves out nodes in no partition, so this node is added if it is
        missing."""
        table = self.slurm.nodes_fast()
        if any(node.name == self.name for node in table):
            return table
        return [*table, *self.slurm.nodes([self.name])]

    def this_node(self, table: Sequence[SlurmNode]) -> SlurmNode:
        """This node's row. Raises ``Refused`` where there is none."""
        for node in table:
            if node.name == self.name:
                return node
        raise Refused(["scontrol"], f"Slurm knows no node {self.name}")

    def read(self) -> SlurmNode:
        """This node as slurmctld has it now."""
        if self.known is not None:
            state = self.slurm.node_state(self.name)
            if state is not None:
                kept = self.known
                return replace(
                    state,
                    instance_id=kept.instance_id,
                    boot_at=kept.boot_at,
                    slurmd_started_at=kept.slurmd_started_at,
                    partitions=kept.partitions,
                )
        return self.this_node(self.slurm.nodes([self.name]))

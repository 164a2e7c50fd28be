"""Reads the state of this node, and the table of all nodes, from slurmctld."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.errors import Refused
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.reservations import SlurmMaintenance
from holdfast.vocabulary import SlurmName


@dataclass(frozen=True, slots=True)
class NodeTable:
    """slurmctld's rows. Every call may raise CommandError."""

    slurm: SlurmMaintenance
    name: SlurmName

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
        return self.this_node(self.slurm.nodes([self.name]))

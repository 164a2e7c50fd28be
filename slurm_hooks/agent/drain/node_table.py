"""Reads the state of this node, and the table of all nodes, from slurmctld."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from holdfast.errors import CommandError, Refused
from holdfast.policy.budget import Admission, Count
from holdfast.policy.failure_domain import Domain, domain_of
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.parse.sdiag import NodeChanges
from holdfast.slurm.reservations import SlurmMaintenance
from holdfast.vocabulary import SlurmName
from slurm_hooks.settings.sections import BudgetConfig

NO_DOMAIN = Domain()
DOMAIN_S = 12 * 3600.0
"""How long the topology counts that was read last: it is configured, and seldom changes."""


class KnownDomain(NamedTuple):
    """``read_at``: epoch seconds."""

    domain: Domain
    read_at: float


@dataclass(frozen=True, slots=True)
class Counted:
    """What a decision knows of the budget: all nodes, or the proof that it has room. Both None: the step asks
    nothing of the budget. ``domain``: the node's failure domain, with ``table``."""

    table: Sequence[SlurmNode] | None = None
    proof: Admission | None = None
    domain: Domain = NO_DOMAIN


@dataclass(slots=True)
class NodeTable:
    """slurmctld's rows. Every call may raise CommandError. ``count``: the newest count of all nodes."""

    slurm: SlurmMaintenance
    name: SlurmName
    limits: BudgetConfig
    count: Count | None = None
    known: SlurmNode | None = None
    """This node, as it was read in full before. What Slurm itself changes of it is read again."""
    domain: KnownDomain | None = None
    """As it was read last."""

    def counted(self, code: str, *, exact: bool = False, after: bool = False) -> Counted:
        """What the budget says to the fault ``code``. In a large cluster the number of changes since the last
        count may prove that it has room, unless ``exact``: it costs slurmctld much less than to send all
        nodes, which a thousand agents must not do at once. ``after`` the drain of this node: its
        domain was judged before it, and is again at the next count."""
        changes: NodeChanges | None = None
        if self.count is not None and self.count.may_prove(self.limits):
            with suppress(CommandError):
                changes = self.slurm.node_changes()
        domain = NO_DOMAIN if after else self.failure_domain(renew=exact)
        # How many nodes of a switch are out, the number of changes in the cluster cannot prove.
        exact = exact or bool(domain.nodes)
        if self.count is not None and changes is not None and not exact:
            proof = self.count.admits(changes.changes, changes.counted_since, self.limits, code)
            if proof is not None:
                return Counted(proof=proof)
        table = self.all_nodes()
        if changes is not None:
            self.count = Count.of(table, changes.changes, changes.counted_since)
        return Counted(table=table, domain=self.failure_domain())

    def failure_domain(self, *, renew: bool = False) -> Domain:
        """The leaf switch or block of this node; one without a name if there is none, or it is not known. Read
        at the agent's start, not when a thousand nodes drain at once; ``renew``: again, if that was long ago."""
        now = time.time()
        if self.domain is None or (renew and not 0 <= now - self.domain.read_at < DOMAIN_S):
            try:
                found = domain_of(self.name, self.slurm.topology())
            except Refused:  # there is no topology
                found = NO_DOMAIN
            except CommandError:
                return self.domain.domain if self.domain is not None else NO_DOMAIN
            self.domain = KnownDomain(found, now)
        return self.domain.domain

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
        self.failure_domain()
        return self.this_node(self.slurm.nodes([self.name]))

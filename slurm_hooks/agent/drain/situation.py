"""The inputs of a decision about this node, from the agent's findings, its records and slurmctld's state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timezone

from holdfast.policy import budget, failure_domain
from holdfast.policy.budget import Admission
from holdfast.policy.node_inputs import DrainInputs, NodeSituation, ReturnLimits
from holdfast.policy.ownership import HOOK_REASONS
from holdfast.policy.return_test import ReservedBy
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.agent.drain.node_table import Counted
from slurm_hooks.agent.drain.record import Drained
from slurm_hooks.settings.sections import BudgetConfig, ReasonStyle
from slurm_hooks.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class Situations:
    """The situations of one node: what does not change from step to step."""

    name: SlurmName
    boot_id: str
    config: Settings

    def of(
        self,
        inputs: DrainInputs,
        drained: Drained | None,
        node: SlurmNode,
        counted: Counted,
        reserved_by: ReservedBy,
    ) -> NodeSituation:
        """``node``: this node's state."""
        table = counted.table
        limits = self.config.node.budget
        gpus = self.config.node.expected_gpus
        record = drained.demanding(inputs.uuids, gpus) if drained else None
        gpu = record.gpu if record else None
        # A drain that slurmctld lost is set again for its own code, whatever is open now.
        code = inputs.worst.code if inputs.worst else record.code if record else ""
        return NodeSituation(
            inputs=inputs,
            node=without_hook_drain(node) if inputs.worst else node,
            boot_id=self.boot_id,
            limits=self._limits(),
            now=datetime.now(timezone.utc),
            record=record,
            gpu_recovered=_recovered(inputs, gpu),
            admission=counted.proof or _admission(self.name, counted, limits, code),
            must_withdraw=table is not None
            and (
                self.name in budget.withdrawals(table, limits)
                or self.name in failure_domain.withdrawals(table, counted.domain, limits)
            ),
            reserved_by=reserved_by,
        )

    def _limits(self) -> ReturnLimits:
        agent = self.config.agent
        return ReturnLimits(
            recheck_passes=agent.recheck_passes,
            wait_s=agent.wait_s,
            return_test=agent.return_test,
            node_problem=self.config.node.reason_style is ReasonStyle.NODE_PROBLEM,
            max_wait_s=agent.max_wait_s,
            return_window_s=agent.return_window_s,
            max_returns=agent.max_returns,
        )


def needs_budget(inputs: DrainInputs, drained: Drained | None, node: SlurmNode) -> bool:
    """May the step drain the node, or withdraw its drain? Only then is the node table read, which costs
    slurmctld several times as much as one node.
    """
    if inputs.worst is None:
        return False
    unconfirmed = drained is not None and drained.record.at is None
    return inputs.recount or unconfirmed or not without_hook_drain(node).drained_flag


def _admission(
    name: SlurmName, counted: Counted, limits: BudgetConfig, code: str
) -> Admission | None:
    """The budget's answer for a fault; ``None``: not needed."""
    if counted.table is None or not code:
        return None
    found = budget.admit(name, counted.table, limits, code)
    refused = failure_domain.refusal(name, code, counted.table, counted.domain, limits)
    # That it is an incident says more than that the budget is spent.
    return refused if refused is not None and (found.admitted or refused.incident) else found


def without_hook_drain(node: SlurmNode) -> SlurmNode:
    """The node without a drain that slurmctld set because a Holdfast hook refused it.

    The verdict is published before the drain, so a prolog may refuse the node first. The agent has
    to take that drain over: no one else would ever end it.
    """
    if node.drained_flag and node.reason in HOOK_REASONS:
        return replace(node, states=node.states - {NodeState.DRAIN}, reason="")
    return node


def _recovered(inputs: DrainInputs, gpu: int | None) -> bool | None:
    """Whether the drained GPU (all GPUs, if the fault is not that of a single one) answers and
    requires no action; None: unknown.
    """
    if not inputs.recovered:
        return None
    return all(inputs.recovered.values()) if gpu is None else inputs.recovered.get(gpu)

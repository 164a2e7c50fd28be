"""A job that names its nodes: which of them stay, and what its log says."""

from __future__ import annotations

from holdfast.policy.job.facts import JobDecision, Next
from holdfast.policy.job.named_nodes import ReplaceNodes, kept, said
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState, SlurmName

A, B, C = map(SlurmName, ("worker-0", "worker-1", "worker-2"))


def node(name: SlurmName, *states: NodeState) -> SlurmNode:
    return SlurmNode(name=name, states=frozenset(states))


def test_drained_and_down_nodes_leave_the_list_and_those_to_avoid() -> None:
    nodes = [node(C, NodeState.IDLE), node(A, NodeState.IDLE, NodeState.DRAIN)]
    assert kept([*nodes, node(B, NodeState.DOWN)], ()) == (C,)
    assert kept(nodes, [C]) == ()
    back = node(A, NodeState.IDLE, NodeState.DRAIN, NodeState.UNDRAIN)
    assert kept([back], ()) == (A,)


def test_the_site_and_the_owner_decide() -> None:
    assert [mode.allows(asked=True) for mode in ReplaceNodes] == [False, True, True]
    assert [mode.allows(asked=False) for mode in ReplaceNodes] == [False, False, True]


def test_the_log_says_for_which_node_the_job_waits_or_which_is_replaced() -> None:
    moved = JobDecision(next=Next.REQUEUE, why="bad node worker-1 (XID79)")
    waits = said(moved, {A, B}, {B, C}, replaced=False).why
    assert waits.startswith("bad node worker-1 (XID79); it waits for worker-1, which --nodelist")
    replaced = said(moved, {A, B}, {B}, replaced=True).why
    assert replaced.endswith("another node takes the place of worker-1, which --nodelist names")
    assert said(moved, set(), {B}, replaced=False) == moved
    here = JobDecision(next=Next.RESTART, why="no node of the job is known to be bad")
    assert said(here, {A}, {A}, replaced=True) == here


def test_a_node_that_the_job_names_is_not_excluded_unless_it_is_replaced() -> None:
    """Slurm accepts both lists, and never starts the job."""
    moved = JobDecision(next=Next.REQUEUE, why="its output", exclude=(B, C))
    assert said(moved, {A, B}, (), replaced=False).exclude == (C,)
    assert said(moved, {A, B}, (), replaced=True).exclude == (B, C)

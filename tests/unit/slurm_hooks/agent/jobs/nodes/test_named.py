"""A job that names its nodes gets another node for a bad one, where its owner or the site allows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.policy.job.named_nodes import ReplaceNodes
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.job import marker as markers
from slurm_hooks.settings.job import JobConfig
from tests.unit.slurm_hooks.agent.jobs.fake_job import JOB, FakeSlurm, Node


def node_with(
    tmp_path: Path, policy: ReplaceNodes, states: dict[str, set[NodeState]], named: str
) -> Node:
    nodes = {
        name: SlurmNode(name=SlurmName(name), states=frozenset(found))
        for name, found in states.items()
    }
    slurm = FakeSlurm(replace(JOB, required=named), all_nodes=nodes)
    return Node(tmp_path, slurm, config=JobConfig(replace_nodes=policy))


IDLE, DRAINED = {NodeState.IDLE}, {NodeState.IDLE, NodeState.DRAIN}
ASKED, ALWAYS, NEVER = ReplaceNodes.ASKED, ReplaceNodes.ALWAYS, ReplaceNodes.NEVER


@pytest.mark.parametrize(
    ("policy", "asked", "changes"),
    [
        (ASKED, True, ["require n1", "start_now"]),
        (ASKED, False, ["start_now"]),
        (ALWAYS, False, ["require n1", "start_now"]),
        (NEVER, True, ["start_now"]),
    ],
)
def test_a_drained_node_leaves_the_list_where_that_is_allowed(
    tmp_path: Path, policy: ReplaceNodes, asked: bool, changes: list[str]
) -> None:
    node = node_with(tmp_path, policy, {"n1": IDLE, "n2": DRAINED}, "n[1-2]")
    node.mark(markers.REQUEUE, replace_nodes=asked)
    node.run(0.2)
    assert node.changes == [], "not while it runs"
    node.slurm.requeued()
    node.run(4)
    assert node.changes == changes
    told = "job 7: n2 removed from the nodes that it names (n1)" in node.log
    assert told == (len(changes) > 1)


def test_a_list_of_nodes_in_service_stays(tmp_path: Path) -> None:
    node = node_with(tmp_path, ASKED, {"n1": IDLE, "n2": IDLE}, "n[1-2]")
    node.mark(markers.REQUEUE, replace_nodes=True)
    node.slurm.requeued()
    node.run(4)
    assert node.changes == ["start_now"]


def test_a_node_to_avoid_and_one_that_is_down_leave_it_too(tmp_path: Path) -> None:
    """Slurm refuses to exclude a node that the job names."""
    node = node_with(tmp_path, ASKED, {"n1": IDLE, "n2": {NodeState.DOWN}}, "n[1-2]")
    node.mark(markers.REQUEUE, replace_nodes=True, exclude=("n1",))
    node.slurm.requeued()
    node.run(4)
    assert node.changes == ["require ", "start_now n1"]
    assert "job 7: n1, n2 removed from the nodes that it names (none left)" in node.log

"""Distinguishes a node that has lost the job's processes from one whose slurmd has restarted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone

import pytest

from holdfast.policy.job.decision import decide
from holdfast.policy.job.facts import Next, NodeEvidence
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.job.outcome.attempt_end import NOT_STARTED, facts
from slurm_hooks.job.outcome.lost_nodes import LostNodes
from slurm_hooks.job.outcome.node_faults import JobSnapshot, faults, with_lost
from slurm_hooks.job.step.node_steps import answer, answers
from slurm_hooks.job.step.overlap_step import environment, overlapping
from slurm_hooks.settings.job import JobConfig

T = datetime(2026, 1, 1, tzinfo=timezone.utc)
W1 = SlurmName("worker-1")
ALIVE, GONE = frozenset({"extern", "0"}), frozenset[str]()


def node(
    slurmd_s: float = 0, boot_s: float = 0, state: str = "ALLOCATED", **more: str
) -> SlurmNode:
    return SlurmNode(
        name=W1,
        states=frozenset(NodeState[word] for word in state.split("+")),
        boot_at=T + timedelta(seconds=boot_s),
        slurmd_started_at=T + timedelta(seconds=slurmd_s),
        reason=more.get("reason", ""),
    )


class Node:
    """Answers a query as the node would; ``steps`` None: no answer."""

    def __init__(self, steps: frozenset[str] | None) -> None:
        self.steps, self.times = steps, 0

    def __call__(self, nodes: Sequence[SlurmName]) -> Mapping[str, frozenset[str]]:
        self.times += 1
        return {} if self.steps is None else dict.fromkeys(nodes, self.steps)


def after(
    steps: frozenset[str] | None,
    now: SlurmNode,
    *,
    looks: int = 1,
    contained: bool = True,
    reported: frozenset[SlurmName] = frozenset(),
) -> tuple[list[str], int]:
    """Codes of the lost nodes after a node changed to ``now``, and the number of queries."""
    query = Node(steps)
    lost = LostNodes(query, contained=contained)
    assert lost.among([node()]) == ()
    assert query.times == 0
    for _ in range(looks):
        found = lost.among([now], reported)
    return [fault.code for fault in found], query.times


@pytest.mark.parametrize(
    "now",
    [
        node(slurmd_s=60, boot_s=50),
        node(slurmd_s=-3600, boot_s=-3610),  # its clock was an hour fast before
        node(slurmd_s=60),  # a new pod on a machine that did not boot
    ],
)
def test_a_node_without_any_step_of_the_job_is_lost(now: SlurmNode) -> None:
    assert after(GONE, now, looks=3) == (["LOST"], 1)


@pytest.mark.parametrize("now", [node(slurmd_s=60), node(slurmd_s=60, boot_s=3600)])
def test_a_restart_of_slurmd_alone_is_no_loss(now: SlurmNode) -> None:
    """Even if the node's clock, and with it its boot time, was corrected meanwhile."""
    assert after(ALIVE, now, looks=5) == ([], 1)


def test_an_unchanged_node_is_not_queried() -> None:
    assert after(GONE, node(), looks=5) == ([], 0)


def test_a_node_that_does_not_answer_three_times_is_lost_if_its_boot_time_changed() -> None:
    assert after(None, node(slurmd_s=60, boot_s=50), looks=2) == ([], 2)
    assert after(None, node(slurmd_s=60, boot_s=50), looks=3) == (["LOST"], 3)
    assert after(None, node(slurmd_s=60), looks=5) == ([], 5)


def test_without_an_extern_step_a_node_without_steps_is_lost_only_after_a_boot() -> None:
    assert after(GONE, node(slurmd_s=60), contained=False) == ([], 1)
    assert after(GONE, node(slurmd_s=60, boot_s=50), contained=False) == (["LOST"], 1)


def test_a_node_with_a_reported_fault_is_lost_if_it_has_no_tasks() -> None:
    """Whether or not slurmd has restarted. With tasks running it is not lost (the budget)."""
    reported = frozenset({W1})
    assert after(frozenset({"extern"}), node(), reported=reported) == (["LOST"], 1)
    assert after(ALIVE, node(), reported=reported, looks=3) == ([], 1)


@pytest.mark.parametrize("state", ["DOWN", "ALLOCATED+NOT_RESPONDING"])
def test_a_node_that_is_down_or_not_responding_is_not_queried(state: str) -> None:
    assert after(GONE, node(slurmd_s=60, boot_s=50, state=state)) == ([], 0)


def test_a_missing_start_time_is_no_change() -> None:
    query = Node(GONE)
    lost = LostNodes(query, contained=True)
    lost.among([node()])
    lost.among([SlurmNode(name=W1, states=frozenset({NodeState.IDLE}))])
    assert query.times == 0


def test_a_job_with_a_lost_node_is_requeued_and_may_have_the_node_again() -> None:
    lost = LostNodes(Node(GONE), contained=True)
    lost.among([node()])
    now = node(slurmd_s=60, boot_s=50)
    snapshot = with_lost(
        JobSnapshot(job=None, faults=faults([now]), nodes=(now,)), lost.among([now])
    )
    known = facts(snapshot, NOT_STARTED, [], 2)
    assert known.nodes == (NodeEvidence(node=W1, code="LOST", fatal=True, out_of_service=True),)
    decision = decide(known, JobConfig(), T)
    assert (decision.next, decision.exclude) == (Next.REQUEUE, ())
    assert "worker-1 (LOST)" in decision.why


def test_a_drain_takes_precedence_over_a_lost_node() -> None:
    drained = node(
        slurmd_s=60, state="ALLOCATED+DRAIN", reason="holdfast:XID79: GPU 3 fell off the bus gpu=3"
    )
    lost = LostNodes(Node(GONE), contained=True)
    lost.among([node()])
    found = lost.among([node(slurmd_s=60)])
    snapshot = with_lost(JobSnapshot(job=None, faults=faults([drained])), found)
    assert [fault.code for fault in snapshot.faults or ()] == ["XID79"]


def test_the_answers_of_several_nodes_are_parsed() -> None:
    output = answer("worker-1", "9", {"9", "extern", "0"}) + "0: " + answer("worker-2", "9", {"9"})
    assert answers(output) == {"worker-1": ALIVE, "worker-2": GONE}


def test_without_visible_slurmstepds_there_is_no_answer() -> None:
    assert answer("worker-1", "9", set()) == ""
    assert answers("slurmstepd: error: nonsense\n") == {}


def test_the_query_inherits_no_option_of_the_jobs_own_steps() -> None:
    environ = {
        "SLURM_STDOUTMODE": "/dev/null",
        "SRUN_CPUS_PER_TASK": "8",
        "SLURM_CONF": "/c",
        "A": "1",
    }
    assert environment(environ) == {"SLURM_CONF": "/c", "A": "1"}
    assert "--nodelist=worker-1" in overlapping(7, 1, nodes="worker-1")
    assert not any(word.startswith("--nodelist") for word in overlapping(7, 2))

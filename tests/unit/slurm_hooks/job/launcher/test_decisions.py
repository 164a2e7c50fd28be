"""What the launcher asks before a decision, and tells the agent before it exits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.policy.job.named_nodes import ReplaceNodes
from holdfast.slurm.client import SlurmJob, SlurmNode
from holdfast.vocabulary import NodeState, SlurmName
from slurm_hooks.job.journal import Journal
from slurm_hooks.job.launcher.actions import Actions
from slurm_hooks.job.launcher.decisions import Decisions
from slurm_hooks.job.outcome.node_faults import JobSnapshot
from slurm_hooks.settings.job import JobConfig

NODES = tuple(SlurmName(f"worker-{number}") for number in range(4))
JOB = SlurmJob(
    job_id=7, name="t", user="alice", state="RUNNING", state_reason="", restarts=0, requeue=True
)
IDLE = [SlurmNode(name=name, states=frozenset({NodeState.IDLE})) for name in NODES]


@pytest.mark.parametrize(
    ("named", "policy", "asked", "spares"),
    [
        ("", ReplaceNodes.ASKED, False, 2),
        ("worker-0", ReplaceNodes.ASKED, False, 2),
        ("worker-[0-1]", ReplaceNodes.ASKED, False, 0),
        ("worker-[0-1]", ReplaceNodes.ASKED, True, 2),
        ("worker-[0-1]", ReplaceNodes.ALWAYS, False, 2),
        ("worker-[0-1]", ReplaceNodes.NEVER, True, 0),
    ],
)
def test_no_other_node_is_free_for_a_suspect_that_the_job_names(
    named: str, policy: ReplaceNodes, asked: bool, spares: int
) -> None:
    tools = SimpleNamespace(
        slurm=SimpleNamespace(nodes_fast=lambda: IDLE), config=JobConfig(replace_nodes=policy)
    )
    job = SimpleNamespace(replace_nodes=asked)
    look = SimpleNamespace(nodes=NODES[:2])
    decisions = Decisions(
        cast("Any", job), cast("Any", tools), cast("Any", None), cast("Any", look)
    )
    snapshot = JobSnapshot(job=replace(JOB, required=named), faults=())
    assert decisions._spares({NODES[1]}, snapshot) == spares


@pytest.mark.parametrize(("state", "called"), [("PENDING", "deliver"), ("RUNNING", "mark")])
def test_a_launcher_that_others_end_tells_the_agent_before_it_exits(
    tmp_path: Path, state: str, called: str
) -> None:
    calls = list[str]()
    control = SimpleNamespace(
        deliver=lambda: calls.append("deliver"), mark=lambda _, **__: calls.append("mark")
    )
    tools = SimpleNamespace(journal=Journal(tmp_path / "journal.jsonl", lambda: 0.0))
    unused: Any = SimpleNamespace(expedited=False, finish=lambda: None)
    actions = Actions(unused, cast("Any", tools), cast("Any", control), unused, unused)
    end: Any = SimpleNamespace(status=143, exit_code=143)
    snapshot = JobSnapshot(job=replace(JOB, state=state), faults=())
    assert actions.ended_by_others(1, end, snapshot) == 143
    assert calls == [called]

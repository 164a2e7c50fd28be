"""A run that was affected by a fault of this node is recorded in the history after its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurm_hooks.agent.job_report.reporter import Reporter
from slurm_hooks.agent.job_runs.runs import JobRun, JobXid
from slurm_hooks.settings import settings

Noted = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def reporter(tmp_path: Path) -> tuple[Reporter, Noted]:
    config = tmp_path / "holdfast.yaml"
    config.write_text(f"paths: {{run: {tmp_path}/run, state: {tmp_path}/state}}\n")
    noted: Noted = []
    made = Reporter(
        "w", "boot", settings.load(config), lambda event, **facts: noted.append((event, facts))
    )
    return made, noted


def run(*xids: int) -> JobRun:
    found = tuple(
        JobXid(xid=xid, pci="0000:86:00", seq=n, at_s=5.0, gpu=3, uuid="GPU-3")
        for n, xid in enumerate(xids)
    )
    return JobRun(job=4711, restarts=2, started_s=1.0, ended_s=9.0, xids=found)


def test_a_run_affected_by_the_node_is_recorded_with_its_gpu(
    reporter: tuple[Reporter, Noted],
) -> None:
    made, noted = reporter
    made.note_incidents(run(79, 45), ())
    ((event, facts),) = noted
    assert event == "job_affected"
    assert (facts["job"], facts["run"], facts["code"]) == (4711, 2, "XID79")
    assert (facts["gpu"], facts["gpu_uuid"]) == (3, "GPU-3")
    assert facts["detail"] == "job 4711: XID79"


def test_a_jobs_own_fault_is_not_the_nodes(reporter: tuple[Reporter, Noted]) -> None:
    made, noted = reporter
    made.note_incidents(run(), ())
    made.note_incidents(run(31, 43), ())
    assert noted == []

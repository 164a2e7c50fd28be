"""A node whose agent tracks a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.slurm_hooks.agent.jobs.fake_job import JOB, FakeSlurm, Node


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setenv("HOLDFAST_CONFIG", str(tmp_path / "holdfast.yaml"))
    return Node(tmp_path, FakeSlurm(JOB))

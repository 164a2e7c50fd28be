"""A node with an agent's step and a fake Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.schema import ClusterConfig, PathsConfig
from slurm_hooks.active import node_reservation
from slurm_hooks.settings.sections import AgentConfig, BudgetConfig, NodeConfig
from slurm_hooks.settings.settings import Settings
from tests.unit.slurm_hooks.agent.drain.fake_slurm import ME, Bench, FakeSlurm


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(node_reservation, "_RELEASE_S", 0.2)
    monkeypatch.setattr(node_reservation, "_LOOK_S", 0.01)
    slurm = FakeSlurm()
    slurm.add("worker-0", ME, "worker-2", "worker-3")
    config = Settings(
        path=tmp_path / "none.yaml",
        cluster=ClusterConfig(paths=PathsConfig(run=tmp_path / "run", state=tmp_path)),
        node=NodeConfig(budget=BudgetConfig(max_nodes=1, max_share=0)),
        agent=AgentConfig(recheck_passes=2, wait_s=0),
    )
    return Bench(slurm, config, tmp_path / "drain.json")

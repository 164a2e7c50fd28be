"""The demo counts a node as returned once slurmctld has undrained it and it answers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from demonstration import scenario as scenario_module
from demonstration.observe import NodeView
from demonstration.scenario import Scenario, ScenarioRunner

DRAINED = frozenset({"IDLE", "DRAIN"})
PINGED_SOON = frozenset({"IDLE", "NOT_RESPONDING"})
IDLE = frozenset({"IDLE"})


def test_slurmctlds_wait_for_a_ping_does_not_delay_the_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the taint would seem to be removed before the undrain, which it follows."""
    looks = [DRAINED, PINGED_SOON, PINGED_SOON, IDLE]
    looked: list[frozenset[str]] = []
    monkeypatch.setattr(scenario_module, "time", SimpleNamespace(time=lambda: 100.0 + len(looked)))

    def node(_name: str) -> NodeView:
        looked.append(looks[len(looked)])
        return NodeView(looked[-1], "")

    (tmp_path / "boot_id").write_text("12345678-9\n")
    machine = SimpleNamespace(path=lambda _inside: tmp_path / "boot_id")
    box = SimpleNamespace(heal=lambda _name: None, node=lambda _name: machine)
    cluster: Any = SimpleNamespace(box=box, node=node, verdict=lambda _name: {"status": "ok"})
    live: Any = SimpleNamespace(say=lambda _text: None)
    watch: Any = SimpleNamespace(first=lambda *_args, **_named: None)
    scenario = Scenario(cast("Any", None), victim="worker-1")
    ScenarioRunner(cluster, live, gpu=3)._return(scenario, watch)
    assert scenario.problems == []
    assert scenario.at("undrain") == 102.0, "at the first observation without DRAIN"
    assert scenario.seen["undrain"].evidence == "State=IDLE, verdict ok"

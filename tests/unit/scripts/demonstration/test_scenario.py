"""When the demo calls a node given back: a node that slurmctld has undrained, and that answers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from demonstration import scenario as stories
from demonstration.observe import NodeView
from demonstration.scenario import Scenario, ScenarioRunner

DRAINED = frozenset({"IDLE", "DRAIN"})
PINGED_SOON = frozenset({"IDLE", "NOT_RESPONDING"})
IDLE = frozenset({"IDLE"})


def test_slurmctlds_own_wait_for_a_ping_is_not_charged_to_the_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the taint seems to go before the node is back, though it follows the undrain."""
    looks = [DRAINED, PINGED_SOON, PINGED_SOON, IDLE]
    looked: list[frozenset[str]] = []
    monkeypatch.setattr(stories, "time", SimpleNamespace(time=lambda: 100.0 + len(looked)))

    def node(_name: str) -> NodeView:
        looked.append(looks[len(looked)])
        return NodeView(looked[-1], "")

    (tmp_path / "boot_id").write_text("12345678-9\n")
    machine = SimpleNamespace(path=lambda _inside: tmp_path / "boot_id")
    box = SimpleNamespace(heal=lambda _name: None, node=lambda _name: machine)
    cluster: Any = SimpleNamespace(box=box, node=node, verdict=lambda _name: {"status": "ok"})
    live: Any = SimpleNamespace(say=lambda _text: None)
    watch: Any = SimpleNamespace(first=lambda *_args, **_named: None)
    told = Scenario(cast("Any", None), victim="worker-1")
    ScenarioRunner(cluster, live, gpu=3)._give_back(told, watch)
    assert told.problems == []
    assert told.at("undrain") == 102.0, "at the look that first showed it undrained"
    assert told.seen["undrain"].evidence == "State=IDLE, verdict ok"

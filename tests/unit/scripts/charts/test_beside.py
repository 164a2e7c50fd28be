"""What was seen with the operators of other projects beside the bridge (scripts/hold_against --beside)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

DATA = Path(__file__).parents[4] / "tests/data/deploy"


@pytest.mark.parametrize("project", ["soperator", "slinky"])
def test_the_operator_acted_and_the_bridge_undid_nothing_of_others(project: str) -> None:
    """Else there is no record: a violation ends the run."""
    found = json.loads((DATA / f"{project}.json").read_text())["beside"]
    assert found["histories"] >= 5
    assert found["bridge_writes"] >= found["histories"]
    assert {"drains", "undrains of slurm"} <= found["operator"].keys()


def test_only_soperators_maintenance_took_a_drain_from_a_person() -> None:
    taken = {
        project: json.loads((DATA / f"{project}.json").read_text())["beside"]["taken_from_persons"]
        for project in ("soperator", "slinky")
    }
    assert taken["slinky"] == []
    assert all("became '[compute_maintenance] " in one for one in taken["soperator"])

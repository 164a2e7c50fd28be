"""No disturbance sets a live node DOWN, and each power loss is found in time.

A hundred thousand: ``scripts/bench node_death``.
"""

from __future__ import annotations

import pytest

from tests.unit.property import silent_cluster


@pytest.mark.parametrize("seed", range(4))
def test_no_live_node_is_set_down_and_each_dead_one_is(seed: int) -> None:
    done, found = silent_cluster.run_seed(seed, 150)
    assert done >= 150
    assert len(found) >= 3
    assert max(found) <= silent_cluster.FOUND_S


def test_the_simulation_notices_a_watch_that_decides_too_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it checks is checked: with half the silence it finds a live node set DOWN."""
    monkeypatch.setattr(silent_cluster, "SILENT_S", 0.9)
    with pytest.raises(silent_cluster.Violation, match="was set DOWN after"):
        silent_cluster.run_seed(1, 1500)

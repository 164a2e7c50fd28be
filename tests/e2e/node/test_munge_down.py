"""A drain that Slurm cannot take while munge is down is set once munge is back (rule 12)."""

from __future__ import annotations

import pytest
from testbed.box import Box

from tests.e2e import cluster
from tests.e2e.verdicts import Verdicts

pytestmark = pytest.mark.e2e


def test_a_node_without_munge_is_drained_once_munge_is_back(clean_box: Box) -> None:
    box, node = clean_box, "worker-0"
    box.fault(node, "munge-down")
    box.fault(node, "ecc", "--gpu", "3")
    cluster.wait_for(lambda: bool(Verdicts(box, node).codes()), "the verdict", 15)
    assert not cluster.drained(box, node)
    box.heal(node, "munge-down")
    cluster.wait_for(lambda: cluster.drained(box, node), "a drain", 30)

"""bob fills the disks of nodes: drains stop at the users' share of the budget; hardware faults still drain."""

from __future__ import annotations

import pytest
from testbed.box import Box

from tests.e2e import cluster

pytestmark = pytest.mark.one_release


def test_full_disks_leave_room_for_a_broken_gpu(clean_box: Box) -> None:
    """The budget of a box is two nodes, one of them for faults that users can cause."""
    first, second, third = (node.name for node in clean_box.nodes[:3])

    def drained() -> list[str]:
        return [name for name in (first, second, third) if cluster.drained(clean_box, name)]

    clean_box.fault(first, "disk-full")
    cluster.wait_for(lambda: drained() == [first], "the first full disk drains")
    clean_box.fault(second, "disk-full")

    def reported() -> bool:
        comment = str(cluster.slurm_node(clean_box, second)["comment"])
        return comment.startswith("holdfast:DISK_FULL: over budget")

    cluster.wait_for(reported, "the second is over the users' share")
    assert drained() == [first]
    clean_box.fault(third, "xid", "79", "--gpu", "3")
    cluster.wait_for(lambda: cluster.drained(clean_box, third), "a lost GPU still drains")
    assert cluster.reason(clean_box, third).startswith("holdfast:")
    assert drained() == [first, third]

"""Groups of nodes from ``scontrol show topology``."""

from __future__ import annotations

from holdfast.slurm.topology import Group, groups

TREE = """\
SwitchName=spine Level=1 LinkSpeed=1 Nodes=worker-[0-3] Switches=leaf-[0-1]
SwitchName=leaf-0 Level=0 LinkSpeed=1 Nodes=worker-[0-1]
SwitchName=leaf-1 Level=0 LinkSpeed=1 Nodes=worker-[2-3]
"""
BLOCK = """\
BlockName=b1 BlockIndex=0 Nodes=worker-[0-1] BlockSize=2
BlockName=b2 BlockIndex=1 Nodes=worker-[2-3] BlockSize=2
AggregatedBlock=b[1-2] BlockIndex=2 Nodes=worker-[0-3] BlockSize=4
"""


def test_leaf_switches_have_the_switch_above_them() -> None:
    assert groups(TREE) == [
        Group(name="leaf-0", nodes=("worker-0", "worker-1"), above="spine"),
        Group(name="leaf-1", nodes=("worker-2", "worker-3"), above="spine"),
    ]


def test_blocks_and_not_what_they_are_aggregated_to() -> None:
    assert [group.name for group in groups(BLOCK)] == ["b1", "b2"]


def test_no_topology_and_what_cannot_be_read() -> None:
    assert groups("scontrol: No topology information available\n") == []
    assert groups("SwitchName=a Level=0 Nodes=worker-[0-\nBlockName=b Nodes=(null)\n") == []

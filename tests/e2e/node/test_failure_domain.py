"""Agents on a cluster with leaf switches, with a real slurmctld that has a topology."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from testbed.box import Box

from tests.e2e import agents, cluster

pytestmark = [pytest.mark.e2e, pytest.mark.one_release]

_PLUGIN = "TopologyPlugin=topology/tree\n"


@pytest.fixture
def switched_box(clean_box: Box) -> Iterator[Box]:
    """Two nodes on each of two leaf switches, and a budget for all nodes. The agents have read the topology."""
    first, second, third, fourth = (node.name for node in clean_box.nodes)
    conf, tree = clean_box.path("/etc/slurm/slurm.conf"), clean_box.path("/etc/slurm/topology.conf")
    tree.write_text(
        f"SwitchName=leaf0 Nodes={first},{second}\nSwitchName=leaf1 Nodes={third},{fourth}\n"
        "SwitchName=top Switches=leaf[0-1]\n"
    )
    plain = conf.read_text()
    _restart(clean_box, plain + _PLUGIN)
    before = agents.configure(
        clean_box, lambda text: text.replace("budget: {max_nodes: 2", "budget: {max_nodes: 4")
    )
    assert "max_nodes: 2" in before
    yield clean_box
    cluster.repair(clean_box)
    _restart(clean_box, plain)
    tree.unlink()
    agents.configure(clean_box, lambda _text: before)  # they read the topology when they start


def _restart(box: Box, conf: str) -> None:
    box.stop_daemon("slurmctld")
    box.path("/etc/slurm/slurm.conf").write_text(conf)
    box.start_daemon("slurmctld")
    ping = ["scontrol", "ping"]
    cluster.wait_for(lambda: box.run(ping, check=False).returncode == 0, "slurmctld", 60)
    cluster.wait_for(lambda: cluster.all_in_service(box), "all nodes in service", 60)


def test_half_of_a_leaf_switch_stays_in_service(switched_box: Box) -> None:
    box = switched_box
    first, second, third, _ = (node.name for node in box.nodes)
    box.fault(first, "xid", "79", "--gpu", "3")
    cluster.wait_for(lambda: cluster.drained(box, first), "the first of the switch drains")
    box.fault(second, "ecc", "--gpu", "4")
    box.fault(third, "ecc", "--gpu", "4")

    def is_told() -> bool:
        shown = str(cluster.slurm_node(box, second)["comment"])
        return shown.startswith("holdfast:") and "over budget" in shown

    cluster.wait_for(is_told, "the second is over the switch's part")
    cluster.wait_for(lambda: cluster.drained(box, third), "one of the other switch drains")
    assert not cluster.drained(box, second)
    why = box.node(second).run(["holdfast", "explain", second], check=False).stdout
    assert "1 of at most 1 nodes of topology=leaf0" in why
    box.heal(first)
    cluster.wait_for(lambda: cluster.drained(box, second), "it drains once there is room", 180)

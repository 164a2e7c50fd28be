"""The agent acts on a known fault whatever the state of its own disk (rule 12)."""

from __future__ import annotations

import json

import pytest
from testbed.box import Box

from tests.e2e import cluster
from tests.e2e.verdicts import Verdicts

pytestmark = [pytest.mark.e2e, pytest.mark.one_release]


@pytest.mark.parametrize(
    ("node", "kind"),
    [("worker-0", "state-full"), ("worker-1", "state-read-only"), ("worker-2", "state-hung")],
)
def test_a_faulty_node_is_drained_and_returns(clean_box: Box, node: str, kind: str) -> None:
    box = clean_box
    cluster.wait_for(lambda: cluster.in_service(box, node), f"{node} in service")
    box.fault(node, kind)
    try:
        box.fault(node, "ecc", "--gpu", "2")
        cluster.wait_for(lambda: cluster.drained(box, node), "a drain", 15)
        cluster.wait_for(
            lambda: "STATE_UNWRITABLE" in Verdicts(box, node).codes(), "the finding", 15
        )
        explain = ["/opt/holdfast/bin/holdfast", "explain", node]
        assert "STATE_UNWRITABLE" in box.node(node).run(explain, check=False).stdout
        if kind != "state-hung":  # a starting agent reads that folder first
            box.fault(node, "agent-killed")  # the record in memory proves who drained the node
        box.heal(node, "ecc")
        cluster.wait_for(lambda: cluster.in_service(box, node), "the node back", 40)
    finally:
        box.heal(node)
    cluster.wait_for(
        lambda: "STATE_UNWRITABLE" not in Verdicts(box, node).codes(), "writes again", 40
    )


def test_the_record_is_moved_to_the_disk_once_it_is_writable(clean_box: Box) -> None:
    box, node = clean_box, "worker-3"
    box.fault(node, "state-read-only")
    box.fault(node, "ecc", "--gpu", "1")
    in_memory = ["test", "-e", "/run/holdfast/drain.json"]
    cluster.wait_for(lambda: cluster.drained(box, node), "a drain", 15)
    assert box.node(node).run(in_memory, check=False).returncode == 0
    box.heal(node, "state-read-only")
    cluster.wait_for(
        lambda: box.node(node).run(in_memory, check=False).returncode == 1, "the record moved", 15
    )
    kept = json.loads(box.node(node).run(["cat", "/var/lib/holdfast/drain.json"]).stdout)
    assert kept["record"]["reason"] == cluster.reason(box, node)

"""A fault that comes and goes does not take its node out and back each time."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from testbed.box import Box

from tests.e2e import cluster, detection_run

pytestmark = pytest.mark.e2e

NODE = "worker-1"
TOGGLED_S = 24.0


def _damped(text: str) -> str:
    """As a cluster has it, each wait shorter: the first is 2 s, and the second return is the last one."""
    return text.replace("return_window_s: 20", "return_window_s: 3600, max_returns: 2")


@pytest.fixture
def damped_box(clean_box: Box) -> Iterator[Box]:
    before = detection_run.configure(clean_box, _damped)
    yield clean_box
    detection_run.configure(clean_box, lambda _text: before)
    clean_box.heal(NODE)
    # What the last return counted for is in the memory of the agent until a person resumes the node.
    clean_box.run(["scontrol", "update", f"nodename={NODE}", "state=resume"], check=False)


def test_a_mount_that_flaps_asks_for_a_person(damped_box: Box) -> None:
    box, changes, was = damped_box, 0, False
    end = time.monotonic() + TOGGLED_S
    while time.monotonic() < end:
        box.fault(NODE, "mount-gone")
        is_out = [_watched(box, 2.2, was)]
        box.heal(NODE, "mount-gone")
        is_out.append(_watched(box, 3.3, is_out[-1][0]))
        changes += sum(count for _, count in is_out)
        was = is_out[-1][0]
    assert 1 <= changes <= 5, "out, back after 2 s, out, back after 4 s, out for good"
    cluster.wait_for(
        lambda: ": returned 2 times in 60 min, resume by hand: " in cluster.reason(box, NODE),
        "a person is asked",
        30,
        lambda: cluster.scene(box),
    )
    told = box.node(NODE).run(["holdfast", "explain", NODE], check=False).stdout
    assert "Needs a person: it returned 2 times before" in told, told
    assert "resume by hand" in box.run(["holdfast", "nodes", "--out"]).stdout
    metrics = box.node(NODE).run(["cat", "/run/holdfast/metrics.prom"]).stdout
    assert "holdfast_node_resume_by_hand 1" in metrics
    box.fault(NODE, "agent-killed")
    cluster.stays(
        lambda: cluster.drained(box, NODE), "it stays out, healed and with a new agent", 8
    )
    box.run(["scontrol", "update", f"nodename={NODE}", "state=resume"])
    cluster.stays(lambda: not cluster.drained(box, NODE), "a person's word counts", 4)
    box.fault(NODE, "mount-gone")
    cluster.wait_for(lambda: cluster.drained(box, NODE), "drained for what is there now")
    assert "returned" not in cluster.reason(box, NODE), "the person's word began a new count"
    box.heal(NODE, "mount-gone")
    cluster.wait_for(lambda: cluster.in_service(box, NODE), "back by itself")


def _watched(box: Box, for_s: float, was: bool) -> tuple[bool, int]:
    """Whether the node is drained after so many seconds, and how often that changed within them."""
    changes, end = 0, time.monotonic() + for_s
    while time.monotonic() < end:
        is_out = cluster.drained(box, NODE)
        changes += is_out is not was
        was = is_out
        time.sleep(0.2)
    return was, changes

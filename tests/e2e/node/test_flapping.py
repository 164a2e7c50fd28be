"""A flapping fault does not drain and return its node each time."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from testbed.box import Box

from tests.e2e import agents, cluster

pytestmark = [pytest.mark.e2e, pytest.mark.one_release]

NODE = "worker-1"
TOGGLED_S = 24.0


def _damped(text: str) -> str:
    """As on a cluster, with shorter waits: the first is 2 s, and at most two returns."""
    return text.replace("return_window_s: 20", "return_window_s: 3600, max_returns: 2")


@pytest.fixture
def damped_box(clean_box: Box) -> Iterator[Box]:
    before = agents.configure(clean_box, _damped)
    yield clean_box
    agents.configure(clean_box, lambda _text: before)
    clean_box.heal(NODE)
    # The agent counts returns until a person resumes the node.
    clean_box.run(["scontrol", "update", f"nodename={NODE}", "state=resume"], check=False)


def test_a_node_with_a_flapping_mount_must_be_resumed_by_hand(damped_box: Box) -> None:
    box, changes, was = damped_box, 0, False
    end = time.monotonic() + TOGGLED_S
    while time.monotonic() < end:
        box.fault(NODE, "mount-gone")
        periods = [_watched(box, 2.2, was)]
        box.heal(NODE, "mount-gone")
        periods.append(_watched(box, 3.3, periods[-1][0]))
        changes += sum(count for _, count in periods)
        was = periods[-1][0]
    assert 1 <= changes <= 5, (
        "drained, back after 2 s, drained, back after 4 s, drained until resumed"
    )
    cluster.wait_for(
        lambda: ": returned 2 times in 60 min, resume by hand: " in cluster.reason(box, NODE),
        "the reason requires a person",
        30,
        lambda: cluster.scene(box),
    )
    page = box.node(NODE).run(["holdfast", "explain", NODE], check=False).stdout
    assert "Needs a person: it returned 2 times before" in page, page
    assert "resume by hand" in box.run(["holdfast", "nodes", "--out"]).stdout
    metrics = box.node(NODE).run(["cat", "/run/holdfast/metrics.prom"]).stdout
    assert "holdfast_node_manual_resume_required 1" in metrics
    box.fault(NODE, "agent-killed")
    cluster.stays(
        lambda: cluster.drained(box, NODE), "it stays drained, healed and with a new agent", 8
    )
    box.run(["scontrol", "update", f"nodename={NODE}", "state=resume"])
    cluster.stays(lambda: not cluster.drained(box, NODE), "a manual resume is kept", 4)
    box.fault(NODE, "mount-gone")
    cluster.wait_for(lambda: cluster.drained(box, NODE), "drained for the new fault")
    assert "returned" not in cluster.reason(box, NODE), "the manual resume reset the count"
    box.heal(NODE, "mount-gone")
    cluster.wait_for(lambda: cluster.in_service(box, NODE), "returned to service automatically")


def _watched(box: Box, for_s: float, was: bool) -> tuple[bool, int]:
    """(whether the node is drained after ``for_s`` seconds, how often that changed meanwhile)."""
    changes, end = 0, time.monotonic() + for_s
    while time.monotonic() < end:
        drained = cluster.drained(box, NODE)
        changes += drained is not was
        was = drained
        time.sleep(0.2)
    return was, changes

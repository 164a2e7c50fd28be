"""Law 4 while jobs arrive, and what is left of a fault: history, score, metrics. On real slurmctld and slurmd."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from testbed.box import Box

from tests.e2e import cluster

pytestmark = pytest.mark.e2e

CTLD_LOG = "/var/log/slurm/slurmctld.log"


@contextmanager
def jobs_on(box: Box, nodes: list[str]) -> Iterator[None]:
    """Short jobs, one after the other, on each of these nodes."""
    ends = threading.Event()

    def keep_busy(node: str) -> None:
        words = ["srun", "--quiet", "--immediate=2", f"--nodelist={node}", "--ntasks=1", "true"]
        while not ends.is_set():
            box.run(words, user="alice", check=False, timeout_s=60)

    threads = [threading.Thread(target=keep_busy, args=(node,)) for node in nodes]
    for one in threads:
        one.start()
    try:
        yield
    finally:
        ends.set()
        for one in threads:
            one.join()


def events(box: Box, node: str) -> list[dict[str, Any]]:
    """The node's own history as its command tells it."""
    done = box.node(node).run(["holdfast", "history", node, "--json"], check=False)
    found: list[dict[str, Any]] = json.loads(done.stdout)["events"] if done.stdout else []
    return found


def happened(box: Box, node: str, since_s: float) -> set[str]:
    return {event["event"] for event in events(box, node) if event["t"] >= since_s}


def metric(box: Box, node: str, name: str) -> float:
    text = box.node(node).run(["cat", "/run/holdfast/metrics.prom"]).stdout
    found = {family.name: family for family in text_string_to_metric_families(text)}
    return float(found[name].samples[0].value)


def test_no_prolog_takes_out_a_node_beyond_the_budget(clean_box: Box) -> None:
    """Every node gets the same fault in the same moment, and jobs arrive at each of them."""
    nodes = [node.name for node in clean_box.nodes]
    log = clean_box.path(CTLD_LOG)
    before = len(log.read_text(errors="replace"))
    with jobs_on(clean_box, nodes):
        hit = [threading.Thread(target=clean_box.fault, args=(n, "xid", "79")) for n in nodes]
        for one in hit:
            one.start()
        for one in hit:
            one.join()
        cluster.wait_for(
            lambda: (
                sum(cluster.drained(clean_box, node) for node in nodes) == 2
                and sum(metric(clean_box, node, "holdfast_node_over_budget") for node in nodes) == 2
            ),
            "two are out, and two know that they may not be",
            60,
            lambda: cluster.scene(clean_box),
        )
        cluster.stays(
            lambda: sum(cluster.drained(clean_box, node) for node in nodes) == 2,
            "the budget holds while jobs arrive",
            10,
        )
    since = log.read_text(errors="replace")[before:]
    assert "Prolog error" not in since
    assert {cluster.reason(clean_box, n)[:14] for n in nodes if cluster.drained(clean_box, n)} == {
        "holdfast:XID79"
    }


def test_a_fault_is_in_the_past_and_in_the_metrics(clean_box: Box) -> None:
    node = clean_box.nodes[1].name
    begun = time.time()
    clean_box.fault(node, "xid", "79", "--gpu", "3")
    cluster.wait_for(lambda: cluster.drained(clean_box, node), "drained", 20)
    cluster.wait_for(
        lambda: metric(clean_box, node, "holdfast_node_drained") == 1, "metrics follow", 10
    )
    cluster.wait_for(
        lambda: "drained" in happened(clean_box, node, begun), "it is written down", 20
    )
    clean_box.heal(node)
    cluster.wait_for(lambda: cluster.in_service(clean_box, node), "given back", 60)
    cluster.wait_for(lambda: "given_back" in happened(clean_box, node, begun), "and that too", 20)
    story = [event for event in events(clean_box, node) if event["t"] >= begun]
    names = [event["event"] for event in story]
    assert names.index("drained") < names.index("boot") < names.index("given_back")
    opened = next(e for e in story if e["event"] == "finding_opened" and e["code"] == "XID79")
    assert opened["gpu"] == 3
    done = clean_box.node(node).run(["holdfast", "history", opened["gpu_uuid"], "--json"])
    assert json.loads(done.stdout)["counts"]["faults"] >= 1

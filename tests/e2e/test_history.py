"""The drain budget (rule 4) while jobs arrive; history and metrics of a fault. With real slurmctld and slurmd."""

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

pytestmark = [pytest.mark.e2e, pytest.mark.one_release]

CTLD_LOG = "/var/log/slurm/slurmctld.log"


@contextmanager
def jobs_on(box: Box, nodes: list[str]) -> Iterator[None]:
    """Run short jobs, one after another, on each of these nodes."""
    ends = threading.Event()

    def keep_busy(node: str) -> None:
        words = ["srun", "--quiet", "--immediate=2", f"--nodelist={node}", "--ntasks=1", "true"]
        while not ends.is_set():
            box.run(words, user="alice", check=False, timeout_s=60)

    threads = [threading.Thread(target=keep_busy, args=(node,)) for node in nodes]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ends.set()
        for thread in threads:
            thread.join()


def events(box: Box, node: str) -> list[dict[str, Any]]:
    """The node's history as its command prints it."""
    done = box.node(node).run(["holdfast", "history", node, "--json"], check=False)
    found: list[dict[str, Any]] = json.loads(done.stdout)["events"] if done.stdout else []
    return found


def happened(box: Box, node: str, since_s: float) -> set[str]:
    return {event["event"] for event in events(box, node) if event["t"] >= since_s}


def metric(box: Box, node: str, name: str) -> float:
    text = box.node(node).run(["cat", "/run/holdfast/metrics.prom"]).stdout
    found = {family.name: family for family in text_string_to_metric_families(text)}
    return float(found[name].samples[0].value)


def test_no_prolog_drains_a_node_over_the_budget(clean_box: Box) -> None:
    """Every node gets the same fault at the same time, and jobs arrive on each of them."""
    nodes = [node.name for node in clean_box.nodes]
    log = clean_box.path(CTLD_LOG)
    before = len(log.read_text(errors="replace"))
    with jobs_on(clean_box, nodes):
        injections = [
            threading.Thread(target=clean_box.fault, args=(n, "xid", "79")) for n in nodes
        ]
        for injection in injections:
            injection.start()
        for injection in injections:
            injection.join()
        cluster.wait_for(
            lambda: (
                sum(cluster.drained(clean_box, node) for node in nodes) == 2
                and sum(metric(clean_box, node, "holdfast_node_over_budget") for node in nodes) == 2
            ),
            "two nodes drained, and two over budget",
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


def test_a_fault_is_in_the_history_and_in_the_metrics(clean_box: Box) -> None:
    node = clean_box.nodes[1].name
    begun = time.time()
    clean_box.fault(node, "xid", "79", "--gpu", "3")
    cluster.wait_for(lambda: cluster.drained(clean_box, node), "drained", 20)
    cluster.wait_for(
        lambda: metric(clean_box, node, "holdfast_node_drained") == 1, "the metric", 10
    )
    cluster.wait_for(
        lambda: "drained" in happened(clean_box, node, begun), "an event `drained`", 20
    )
    clean_box.heal(node)
    cluster.wait_for(lambda: cluster.in_service(clean_box, node), "returned to service", 60)
    cluster.wait_for(
        lambda: "returned_to_service" in happened(clean_box, node, begun),
        "an event `returned_to_service`",
        20,
    )
    history = [event for event in events(clean_box, node) if event["t"] >= begun]
    names = [event["event"] for event in history]
    assert names.index("drained") < names.index("boot") < names.index("returned_to_service")
    opened = next(e for e in history if e["event"] == "finding_opened" and e["code"] == "XID79")
    assert opened["gpu"] == 3
    done = clean_box.node(node).run(["holdfast", "history", opened["gpu_uuid"], "--json"])
    assert json.loads(done.stdout)["counts"]["faults"] >= 1
    shared = json.loads(clean_box.run(["holdfast", "history", node, "--json"]).stdout)
    assert opened in shared["events"], "paths.history is shared: the controller has it too"

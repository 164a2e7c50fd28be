"""Queries of the end-to-end tests: a box's nodes in slurmctld and in Kubernetes."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from testbed.box import Box
from testbed.errors import SandboxError

from tests.e2e.verdicts import Verdicts

WORST_WAIT_S = 60.0
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 2.0


def slurm_node(box: Box, node: str) -> dict[str, Any]:
    """slurmctld's record of a node."""
    text = box.run(["scontrol", "show", "node", node, "--json"]).stdout
    record: dict[str, Any] = json.loads(text)["nodes"][0]
    return record


def slurm_nodes(box: Box) -> dict[str, dict[str, Any]]:
    """slurmctld's records of all nodes, by name."""
    text = box.run(["scontrol", "show", "nodes", "--json"]).stdout
    return {record["name"]: record for record in json.loads(text)["nodes"]}


def states(box: Box, node: str) -> set[str]:
    return set(slurm_node(box, node)["state"])


def reason(box: Box, node: str) -> str:
    return str(slurm_node(box, node)["reason"])


def drained(box: Box, node: str) -> bool:
    return "DRAIN" in states(box, node)


def in_service(box: Box, node: str) -> bool:
    return _in_service(slurm_node(box, node))


def _in_service(record: Mapping[str, Any]) -> bool:
    return not set(record["state"]) & {"DRAIN", "DOWN", "NOT_RESPONDING", "INVALID_REG"}


def kube_name(box: Box, node: str) -> str:
    """Slurm's instance ID of the node. It never changes in a box, so it is read once."""
    key = (str(box.folder), box.started, node)
    if key not in _KUBE_NAMES:
        _KUBE_NAMES[key] = str(slurm_node(box, node)["instance_id"])
    return _KUBE_NAMES[key]


_KUBE_NAMES: dict[tuple[str, int, str], str] = {}


def kube_node(box: Box, node: str) -> dict[str, Any]:
    """The Kubernetes Node behind a Slurm node."""
    record: dict[str, Any] = json.loads(
        box.kubectl("get", "node", kube_name(box, node), "-o", "json")
    )
    return record


def condition(box: Box, node: str, kind: str) -> str:
    """Status of a node condition: True, False, Unknown, or '' when there is none."""
    for entry in kube_node(box, node)["status"].get("conditions", []):
        if entry["type"] == kind:
            return str(entry["status"])
    return ""


def taints(box: Box, node: str) -> dict[str, str]:
    """The bridge's taints, key -> value."""
    found = kube_node(box, node)["spec"].get("taints", [])
    return {
        taint["key"]: taint.get("value", "")
        for taint in found
        if taint["key"].startswith("holdfast.dev/")
    }


def cordoned(box: Box, node: str) -> bool:
    return bool(kube_node(box, node)["spec"].get("unschedulable"))


def events(box: Box, node: str) -> list[str]:
    """Reasons of the Events about a node, oldest first."""
    name = kube_name(box, node)
    items = json.loads(box.kubectl("get", "events.events.k8s.io", "-A", "-o", "json"))["items"]
    return [item["reason"] for item in items if item.get("regarding", {}).get("name") == name]


def bridge_writes(box: Box, *changes: str) -> list[float]:
    """How many changes of each kind the bridge has written, from its metrics.

    A bridge that was just started serves them after about a second.
    """
    page = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9646/metrics').read().decode())"
    wait_for(
        lambda: box.run(["python3", "-c", page], check=False).returncode == 0, "metrics served", 20
    )
    text = box.run(["python3", "-c", page]).stdout
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    counts = {
        sample.labels["change"]: sample.value
        for sample in samples
        if sample.name == "holdfast_bridge_writes_total"
    }
    return [counts[change] for change in changes]


def wait_for(
    reached: Callable[[], bool],
    what: str,
    timeout_s: float = WORST_WAIT_S,
    scene: Callable[[], str] = str,
) -> float:
    """Seconds until ``reached``; after ``timeout_s`` fails with ``what`` and ``scene``."""
    begin = look = time.monotonic()
    while not reached():
        now = time.monotonic()
        if now - begin > timeout_s:
            raise AssertionError(f"not within {timeout_s:g} s: {what}\n{scene()}")
        time.sleep(pause_s(now - look))
        look = time.monotonic()
    return time.monotonic() - begin


def pause_s(look_s: float) -> float:
    """How long to wait before the next look if this one took ``look_s``.

    Looks are processes (kubectl and ``holdfast explain`` take 0.1 to 1 s of CPU): waiting must not take a
    whole core from the other tests.
    """
    return min(max(4 * look_s, SHORTEST_PAUSE_S), LONGEST_PAUSE_S)


def stays(holds: Callable[[], bool], what: str, for_s: float) -> None:
    """Fail with ``what`` if the condition stops holding within ``for_s`` seconds."""
    end = time.monotonic() + for_s
    while time.monotonic() < end:
        assert holds(), what
        time.sleep(0.3)


def all_in_service(box: Box) -> bool:
    return all(map(_in_service, slurm_nodes(box).values()))


def repair(box: Box) -> None:
    """Clean up the box for the next test: no job, no fault, every node in service."""
    box.run(["scancel", "--user=alice"])
    for node in box.nodes:
        box.heal(node.name)
    for name, record in slurm_nodes(box).items():
        if "DRAIN" in record["state"] and not str(record["reason"]).startswith("holdfast:"):
            box.run(["scontrol", "update", f"nodename={name}", "state=undrain"])
    for item in json.loads(box.kubectl("get", "nodes", "-o", "json"))["items"]:
        if item["spec"].get("unschedulable"):
            box.kubectl("uncordon", item["metadata"]["name"])

    def back() -> bool:
        records = slurm_nodes(box)
        _resume_where_links_flapped(box, records)
        return all(map(_in_service, records.values()))

    wait_for(back, "every node in service again", 90, lambda: scene(box))


def _resume_where_links_flapped(box: Box, records: Mapping[str, Mapping[str, Any]]) -> None:
    """Resume nodes whose links flapped, as after a cable change; by themselves they wait for a day."""
    for name, record in records.items():
        if record["reason"].startswith("holdfast:") and "IB_FLAP" in Verdicts(box, name).codes():
            box.run(["scontrol", "update", f"nodename={name}", "state=resume"])


def scene(box: Box) -> str:
    """State and logs of every node that is not in service, for debugging."""
    parts = []
    for node in box.nodes:
        if in_service(box, node.name):
            continue
        parts += [
            box.run(["scontrol", "show", "node", node.name], check=False).stdout,
            box.run(["holdfast", "explain", node.name], check=False).stdout,
        ]
        files = ["/run/holdfast/verdict", "/var/lib/holdfast/drain.json"]
        with contextlib.suppress(SandboxError):  # the node may be powered off
            parts.append(box.node(node.name).run(["cat", *files], check=False).stdout)
        log = box.path(f"/var/log/holdfast/agent.{node.name}.log")
        parts.append("\n".join(log.read_text(errors="replace").splitlines()[-60:]))
    return "\n".join(parts)

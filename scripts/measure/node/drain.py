"""Fatal Xid in the kernel log to DRAIN in slurmctld, compared with a bare ``scontrol update``."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from datetime import datetime

from demonstration.observe import Cluster, until
from testbed.box import Box

from holdfast.reason import Reason
from measure.figures import Figure, Series

ROUNDS = 50
XID = "48"
"""Double-bit ECC error: fatal, and repaired by a GPU reset, so that fifty of them take only minutes."""

LOG = "/var/log/slurm/slurmctld.log"
_DRAINED = re.compile(r"\[([^\]]+)\] update_node: node (\S+) reason set to: (.*)")


def drain(box: Box, say: Callable[[str], None]) -> Figure:
    """``ROUNDS`` injections, round robin; each node returns to service before its next turn."""
    cluster, names = Cluster(box), [node.name for node in box.nodes]
    took = []
    for turn in range(ROUNDS):
        node = names[turn % len(names)]
        until(lambda: _free(cluster, names, node), f"{node} in service", 60, 0.2)  # noqa: B023
        took.append(_one(cluster, node, turn % 8))
        box.heal(node)
        if (turn + 1) % 10 == 0:
            say(f"drain: {turn + 1} of {ROUNDS}, last {took[-1] * 1000:.0f} ms")
    until(lambda: len(_in_service(cluster, names)) == len(names), "every node in service", 60, 0.2)
    ours = Series(what="fatal Xid in the kernel log to DRAIN in slurmctld", seconds=tuple(took))
    bare = Series(what="bare scontrol update state=drain", seconds=_bare(box))
    return Figure(
        name="drain",
        ours=ours,
        rival=bare,
        target="p99 at most 0.5 s",
        met=ours.quantile(0.99) <= 0.5,
        notes=(
            "times: the kernel record's timestamp, and slurmctld's log line of the drain (ms)",
            f"Xid {XID}, {ROUNDS} injections over {len(names)} nodes, each returned to service in between",
        ),
    )


def _one(cluster: Cluster, node: str, gpu: int) -> float:
    begin = time.time()
    cluster.box.fault(node, "xid", XID, "--gpu", str(gpu))
    logged = until(lambda: cluster.kernel_log(node, "Xid", begin), f"Xid on {node}", 2, 0.01)
    drained = until(lambda: _drained_at(cluster.box, node, begin), f"{node} drained", 10, 0.05)
    return drained - logged[0]


def _drained_at(box: Box, node: str, since_s: float) -> float | None:
    """When slurmctld applied Holdfast's drain of the node, by its log (same clock as here)."""
    text = box.path(LOG).read_text(errors="replace")
    for stamp, name, reason in reversed(_DRAINED.findall(text)):
        at_s = datetime.fromisoformat(stamp).astimezone().timestamp()
        if at_s < since_s - 0.001:
            return None
        if name == node and Reason.parse(reason.partition(" [")[0]):
            return at_s
    return None


def _in_service(cluster: Cluster, names: list[str]) -> list[str]:
    unavailable = {"DRAIN", "DOWN", "NOT_RESPONDING"}
    return [name for name in names if not cluster.node(name).states & unavailable]


def _free(cluster: Cluster, names: list[str], node: str) -> bool:
    """Whether the node can get a fault: it is in service, and the budget of two allows another drain."""
    available = _in_service(cluster, names)
    return node in available and len(available) >= len(names) - 1


def _bare(box: Box) -> tuple[float, ...]:
    """Seconds of the whole process, started as from a shell on a node."""
    program = (
        "import subprocess, time, json\n"
        "took = []\n"
        "for _ in range(20):\n"
        "    for words in (['state=drain', 'reason=bench'], ['state=undrain']):\n"
        "        begin = time.perf_counter()\n"
        "        subprocess.run(['scontrol', 'update', 'nodename=worker-3', *words], check=True)\n"
        "        if len(words) == 2: took.append(time.perf_counter() - begin)\n"
        "print(json.dumps(took))\n"
    )
    return tuple(json.loads(box.node("worker-0").run(["python3", "-c", program]).stdout))

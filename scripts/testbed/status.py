"""The status of a box, read from Slurm, Kubernetes and the process table."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testbed import faults
from testbed.errors import SandboxError
from testbed.running_box import RunningBox
from testbed.shape import CONTROLLER, kube_name

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """One node. ``slurm_state``: Slurm's flags joined by '+', or 'unknown' when slurmctld does not answer."""

    name: str
    slurm_state: str
    reason: str
    kube_node: str
    kube_ready: str
    """Status of the Node's Ready condition: 'True', 'False' or 'unknown'."""
    cordoned: bool | None
    """None when the API server does not answer."""
    taints: tuple[str, ...]
    """Without those that every Soperator Node has."""
    agent: int | None
    """Host pid of Holdfast's agent, None when it is not running."""
    power: str
    """'on', 'off', or 'cut' when its network cable is unplugged."""
    faults: tuple[str, ...]
    """The injected faults that are not healed, as typed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxStatus:
    """A box: its nodes and its daemons (name -> host pid)."""

    name: str
    slurm: str
    folder: str
    nodes: tuple[NodeStatus, ...]
    daemons: dict[str, int]
    faults: tuple[str, ...]
    """The faults of the whole cluster."""


def read(box: RunningBox) -> BoxStatus:
    """Query every part once; a part that does not answer within seconds is 'unknown'."""
    power = box.ask("state")["nodes"]
    assert isinstance(power, dict)  # noqa: S101 - the supervisor's answer
    slurm = {
        node["name"]: node
        for node in _json(box, ["scontrol", "show", "nodes", "--json"]).get("nodes", [])
    }
    query = ["/opt/kube/bin/kubectl", "get", "nodes", "--output=json", "--request-timeout=4s"]
    kube = {item["metadata"]["name"]: item for item in _json(box, query).get("items", [])}
    nodes = (
        _node(box, name, slurm.get(name), kube.get(kube_name(name)), power.get(name, "off"))
        for name in box.shape.node_names
    )
    return BoxStatus(
        name=box.shape.name,
        slurm=box.shape.slurm,
        folder=str(box.folder),
        nodes=tuple(nodes),
        daemons=box.daemons(),
        faults=_faults(box, CONTROLLER),
    )


def _json(box: RunningBox, argv: list[str]) -> dict[str, Any]:
    try:
        answer = json.loads(box.run(argv, timeout_s=6, cwd="/").stdout)
    except (SandboxError, ValueError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _node(box: RunningBox, name: str, slurm: Any, kube: Any, power: str) -> NodeStatus:
    spec = kube["spec"] if kube else {}
    conditions = kube["status"].get("conditions", []) if kube else []
    taints = (
        f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
        for taint in spec.get("taints", ())
    )
    return NodeStatus(
        name=name,
        slurm_state="+".join(slurm["state"]) if slurm else UNKNOWN,
        reason=slurm["reason"] if slurm else "",
        kube_node=kube_name(name),
        kube_ready=next(
            (each["status"] for each in conditions if each["type"] == "Ready"), UNKNOWN
        ),
        cordoned=bool(spec.get("unschedulable")) if kube else None,
        taints=tuple(taint for taint in taints if not taint.startswith("nvidia.com/")),
        agent=None if power == "off" else _agent(box, name),
        power=power,
        faults=_faults(box, name),
    )


def _faults(box: RunningBox, node: str) -> tuple[str, ...]:
    return tuple(str(fault) for fault in faults.active(box, node))


def _agent(box: RunningBox, node: str) -> int | None:
    try:
        running = box.pids(node)
    except SandboxError:
        return None
    found = (
        pid
        for pid, argv in running
        if any("slurm_hooks.agent" in word for word in argv) or _is_agent(argv)
    )
    return next(found, None)


def _is_agent(argv: list[str]) -> bool:
    """Whether a command line is `holdfast agent`, with any interpreter."""
    return any(
        Path(word).name == "holdfast" and argv[at + 1 : at + 2] == ["agent"]
        for at, word in enumerate(argv)
    )


def as_json(status: BoxStatus) -> str:
    return json.dumps(asdict(status), indent=1)


def as_text(status: BoxStatus) -> str:
    """Two small tables."""
    lines = [
        f"box {status.name}, Slurm {status.slurm}",
        f"{'NODE':11}{'POWER':6}{'SLURM':24}{'AGENT':8}{'KUBERNETES':19}",
    ]
    for node in status.nodes:
        marks = [
            node.kube_node,
            "Ready" if node.kube_ready == "True" else f"Ready={node.kube_ready}",
        ]
        marks += ["cordoned"] if node.cordoned else []
        agent = str(node.agent) if node.agent else "-"
        lines.append(
            f"{node.name:11}{node.power:6}{node.slurm_state:24}{agent:8}{' '.join((*marks, *node.taints))}"
        )
        notes = [f"reason: {node.reason}"] if node.reason else []
        notes += [f"fault: {fault}" for fault in node.faults]
        lines += [f"{'':11}{note}" for note in notes]
    lines += [f"fault of the cluster: {fault}" for fault in status.faults]
    lines.append("daemons: " + ", ".join(sorted(status.daemons)))
    return "\n".join(lines)


def logs(folder: Path) -> dict[str, list[Path]]:
    """Node or daemon -> its log files, for a box up or ended."""
    found: dict[str, list[Path]] = {}
    for path in sorted(
        [*folder.glob("log/*/*"), *folder.glob("kube/*.log"), folder / "supervisor.log"]
    ):
        words = path.name.split(".")
        # slurmd.worker-0.log, node.worker-0.log, agent.worker-0.log belong to worker-0; slurmctld.err to slurmctld
        name = words[1] if len(words) > 2 and words[1].startswith("worker-") else words[0]
        if path.is_file():
            found.setdefault(name, []).append(path)
    return found

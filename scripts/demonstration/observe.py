"""Reads the cluster: Slurm through scontrol and sacct, the nodes' files, Kubernetes through kubectl."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from testbed.box import Box

T = TypeVar("T")
VERDICT = "/run/holdfast/verdict"


class NotSeenError(Exception):
    """An expected event did not happen in time. ``scene``: the state of the cluster then, where known."""

    def __init__(self, what: str, scene: str = "") -> None:
        super().__init__(what)
        self.scene = scene


def until(read: Callable[[], T | None], what: str, timeout_s: float, every_s: float = 0.1) -> T:
    """The first result of ``read`` that is not None or False. Raises ``NotSeenError`` after ``timeout_s``."""
    end = time.monotonic() + timeout_s
    while True:
        answer = read()
        if answer is not None and answer is not False:
            return answer
        if time.monotonic() > end:
            raise NotSeenError(f"{what}: not within {timeout_s:g} s")
        time.sleep(every_s)


def json_lines(path: Path) -> list[dict[str, Any]]:
    """Complete JSON lines of a file that others append to; none when it does not exist."""
    try:
        lines = path.read_text(errors="replace").split("\n")[:-1]
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def verdict_in(path: Path) -> dict[str, Any] | None:
    """The JSON line of a verdict file; None while there is none."""
    try:
        found: dict[str, Any] = json.loads(path.read_text().split("\n")[1])
    except (OSError, ValueError, IndexError):
        return None
    return found


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node in ``scontrol show node``; ``reason`` without user and time."""

    states: frozenset[str]
    reason: str


@dataclass(frozen=True, slots=True)
class JobView:
    """A job in ``scontrol show job``."""

    state: str
    reason: str
    restarts: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cluster:
    """A box, read-only."""

    box: Box

    def node(self, name: str) -> NodeView:
        text = self.box.run(["scontrol", "show", "node", name]).stdout
        fields = _fields(text)
        line = next((ln for ln in text.splitlines() if ln.strip().startswith("Reason=")), "")
        reason = line.strip().removeprefix("Reason=").rpartition(" [")[0]
        return NodeView(frozenset(fields.get("State", "").split("+")), reason)

    def job(self, job_id: int) -> JobView:
        fields = _fields(self.box.run(["scontrol", "show", "job", str(job_id)]).stdout)
        nodes = fields.get("NodeList", "(null)")
        return JobView(
            fields.get("JobState", ""),
            fields.get("Reason", ""),
            int(fields.get("Restarts", "0")),
            self.hosts(nodes) if nodes not in ("(null)", "") else (),
        )

    def hosts(self, expression: str) -> tuple[str, ...]:
        return tuple(self.box.run(["scontrol", "show", "hostnames", expression]).stdout.split())

    def accounting(self, job_id: int) -> list[dict[str, str]]:
        """Every run of the job as sacct knows it, steps too, oldest first."""
        names = "JobID,State,ExitCode,Start,End,NodeList"
        argv = ["sacct", "-j", str(job_id), "--duplicates", "-nPX", f"--format={names}"]
        rows = self.box.run(argv).stdout.splitlines()
        return [dict(zip(names.split(","), row.split("|"), strict=False)) for row in rows]

    def kernel_log(self, node: str, word: str, since_s: float) -> tuple[float, str] | None:
        """(epoch seconds, text) of the first record with ``word`` after ``since_s``."""
        try:
            lines = (self.box.node(node).sim / "kmsg").read_text(errors="replace").split("\n")[:-1]
        except OSError:
            return None
        boot_s = time.time() - time.monotonic()
        for line in lines:
            head, _, text = line.partition(";")
            at_s = boot_s + int(head.split(",")[2]) / 1e6
            # A millisecond of slack: the two clocks are read one after the other.
            if word in text and at_s >= since_s - 0.001:
                return at_s, text
        return None

    def verdict(self, node: str) -> dict[str, Any] | None:
        """The JSON line of the node's verdict file."""
        return verdict_in(self.box.node(node).path(VERDICT))

    def kube_name(self, node: str) -> str:
        record = json.loads(self.box.run(["scontrol", "show", "node", node, "--json"]).stdout)
        return str(record["nodes"][0]["instance_id"])

    def kube_events(self, kube_name: str) -> list[dict[str, Any]]:
        text = self.box.kubectl("get", "events.events.k8s.io", "-A", "-o", "json")
        items = json.loads(text)["items"]
        return [item for item in items if item.get("regarding", {}).get("name") == kube_name]


def _fields(text: str) -> dict[str, str]:
    """``Key=value`` words of scontrol's long form; values with blanks are cut at the first."""
    pairs = (word.partition("=") for word in text.split())
    return {key: value for key, sep, value in pairs if sep}

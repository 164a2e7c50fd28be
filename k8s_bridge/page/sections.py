"""The page's data: sections in JSON, each with a version, so that a browser gets only what changed.

They are made when a browser asks and the loop has reported something new, for all browsers together.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from holdfast.faults import fault_of
from holdfast.node_names import natural
from holdfast.node_states import NOT_DEFINED
from holdfast.policy import budget
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.hostlist import compress
from holdfast.text.printable import values
from holdfast.version import VERSION
from holdfast.vocabulary import KubeName
from k8s_bridge.config import BridgeConfig
from k8s_bridge.endpoints.health import Health
from k8s_bridge.model.node_mapping import kube_name
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.names import KUBERNETES, SLURM
from k8s_bridge.page import cells
from k8s_bridge.page.board import Board, BoardEvent, Snapshot
from k8s_bridge.page.sources import Sources

AT_MOST_EACH_S = 1.0
"""The data is made again at most once in this time."""
MOST_OUT = 2000
_MOST_EVENT_NAMES = 50

_RANKS = {"fatal": 0, "warn": 1, "info": 2}

_Made = tuple[int, bytes]


class Shown(NamedTuple):
    """Where the data comes from."""

    board: Board
    sources: Sources
    health: Health


class Sections:
    """Thread-safe. ``limits``: those of the budget (``node.budget``), if they are known here."""

    def __init__(
        self,
        shown: Shown,
        policy: BridgeConfig,
        *,
        cluster: str = "cluster",
        limits: budget.BudgetLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._board, self._sources, self._health = shown
        self._policy, self._cluster, self._limits, self._clock = policy, cluster, limits, clock
        self._lock = threading.Lock()
        self._judge = cells.Judge()
        self._layout = cells.Layout((), ())
        self._laid_out: tuple[object, ...] = ()
        self._made: dict[str, _Made] = {}
        self._made_of = (-1, -1)
        self._made_at = float("-inf")
        self.run = secrets.token_hex(4)
        """Versions of another run of the bridge mean nothing."""

    def answer(self, have: Mapping[str, int]) -> bytes:
        """JSON: the sections of which the browser has another version, and what always changes."""
        self._sources.asked()
        with self._lock:
            self._make()
            wanted = {name: made for name, made in self._made.items() if have.get(name) != made[0]}
        parts = [
            f'{json.dumps(name)}:{{"v":{version},"data":'.encode() + body + b"}"
            for name, (version, body) in wanted.items()
        ]
        sides = {side: self._health.side(side)._asdict() for side in (SLURM, KUBERNETES)}
        head = {"run": self.run, "at": round(time.time(), 1), "sides": sides}
        return _json(head)[:-1] + b',"sections":{' + b",".join(parts) + b"}}"

    def node(self, name: str) -> dict[str, Any] | None:
        """All that is known here of the node with that name in Slurm or in Kubernetes."""
        look = self._board.look()
        views = {view.name: view for view in look.kube or ()}
        for node in look.slurm or ():
            known_as = kube_name(node, self._policy)
            if name in (node.name, known_as):
                return cells.detail(node, views.get(known_as))
        return None

    def _make(self) -> None:
        look = self._board.look()
        made_of = (look.version, self._sources.version)
        now = self._clock()
        if made_of == self._made_of or now - self._made_at < AT_MOST_EACH_S:
            return
        self._made_of, self._made_at = made_of, now
        nodes = [node for node in look.slurm or () if not node.states & NOT_DEFINED]
        self._arrange(nodes)
        views = {view.name: view for view in look.kube or ()}
        letters, out = self._cells(nodes, views)
        counts = Counter(letters)
        self._put("states", letters)
        self._put("out", [tuple(row) for row in out[:MOST_OUT]])
        self._put("faults", _faults(out))
        self._put("summary", self._summary(look, nodes, counts, len(out), views))
        self._put("events", [_event(event) for event in reversed(look.events)])
        self._put("jobs", self._sources.jobs)
        self._put("lemons", self._sources.lemons)

    def _arrange(self, nodes: Sequence[SlurmNode]) -> None:
        """The order of the nodes; it changes only with the set of nodes and with the topology."""
        names = [node.name for node in nodes]
        if (names, self._sources.topology) == self._laid_out:
            return
        self._laid_out = (names, self._sources.topology)
        self._layout = cells.layout(names, self._sources.topology, natural)
        self._put("nodes", {"names": self._layout.names, "groups": self._layout.groups})

    def _cells(
        self, nodes: Sequence[SlurmNode], views: Mapping[KubeName, KubeNode]
    ) -> tuple[str, list[cells.Out]]:
        """A letter for each node in the order of the grid, and the rows of those out of service."""
        by_name = {node.name: node for node in nodes}
        letters, out = [], []
        for index, name in enumerate(self._layout.names):
            node = by_name[name]  # type: ignore[index] # names of the same nodes
            letter = self._judge.letter(node, views.get(kube_name(node, self._policy)))
            letters.append(letter)
            if letter not in (cells.IDLE, cells.BUSY):
                out.append(cells.out_row(index, node, letter))
        return "".join(letters), out

    def _summary(
        self,
        look: Snapshot,
        nodes: Sequence[SlurmNode],
        counts: Counter[str],
        out: int,
        views: Mapping[KubeName, KubeNode],
    ) -> dict[str, Any]:
        mapped = sum(kube_name(node, self._policy) in views for node in nodes)
        return {
            "cluster": self._cluster,
            "version": VERSION,
            "total": len(nodes),
            "kubernetes": len(views),
            "mapped": mapped,
            "counts": {letter: counts[letter] for letter in cells.KINDS if counts[letter]},
            "out": out,
            "budget": self._budget(nodes),
            "pending": look.pending,
            "switched_off": look.switched_off,
        }

    def _budget(self, nodes: Sequence[SlurmNode]) -> dict[str, int] | None:
        if self._limits is None:
            return None
        drained = [node for node in nodes if node.reason]
        return {
            "used": sum(map(budget.is_charged, drained)),
            "allowed": budget.allowed(self._limits, len(nodes)),
            "by_users": sum(map(budget.is_by_users, drained)),
            "allowed_by_users": budget.allowed_by_users(self._limits, len(nodes)),
        }

    def _put(self, name: str, value: object) -> None:
        body = _json(values(value))
        version, before = self._made.get(name, (0, b""))
        if body != before:
            self._made[name] = (version + 1, body)


def _faults(out: Sequence[cells.Out]) -> list[dict[str, Any]]:
    """Each fault that nodes have now, with what to do, the worst and most frequent first."""
    counts = Counter(row.code for row in out if row.code and row.owner == "holdfast-agent")
    found: list[dict[str, Any]] = []
    for code, count in counts.most_common():
        row = fault_of(code)
        found.append(
            {
                "code": code,
                "title": row.title,
                "runbook": row.runbook,
                "action": row.action.value,
                "severity": row.severity.name.lower(),
                "nodes": count,
            }
        )
    found.sort(key=lambda row: _RANKS[row["severity"]])
    return found


def _event(event: BoardEvent) -> dict[str, Any]:
    names = event.nodes[:_MOST_EVENT_NAMES]
    row = asdict(event)
    del row["nodes"]
    return {**row, "names": compress(names) if names else ""}


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(
        "utf-8", "backslashreplace"
    )

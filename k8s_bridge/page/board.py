"""What the loop reports to the page about each pass: references, so that a pass costs nothing more.

Work is done only when somebody looks at the page.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from holdfast.policy.budget import KUBE_RULE
from holdfast.reason import Reason
from holdfast.slurm.client import SlurmNode
from holdfast.text.wording import counted
from k8s_bridge.model.changes import (
    Change,
    DrainInSlurm,
    Isolate,
    Release,
    UndrainInSlurm,
    UpdateStatus,
)
from k8s_bridge.model.snapshot import KubeNode

MOST_EVENTS = 200
_MOST_NAMES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardEvent:
    """What happened to some nodes in one pass. ``at`` in epoch seconds; ``nodes``: their names in Kubernetes
    (at most 1,000 of ``count``).
    """

    at: float
    kind: str
    text: str
    warning: bool
    nodes: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The last pass. ``slurm`` and ``kube`` are None before the first answer; ``pending``: planned changes."""

    version: int = 0
    slurm: Sequence[SlurmNode] | None = None
    kube: Sequence[KubeNode] | None = None
    pending: int = 0
    switched_off: bool = False
    events: tuple[BoardEvent, ...] = field(default=(), repr=False)


class Board:
    """Thread-safe. ``look`` is the state of the last pass."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._look = Snapshot()
        self._events: deque[BoardEvent] = deque(maxlen=MOST_EVENTS)
        self._before: frozenset[tuple[object, ...]] = frozenset()

    def look(self) -> Snapshot:
        """The last pass."""
        with self._lock:
            return self._look

    def seen(
        self,
        slurm: Sequence[SlurmNode] | None,
        kube: Sequence[KubeNode] | None,
        changes: Sequence[Change],
        now: datetime,
        *,
        switched_off: bool = False,
    ) -> None:
        """One pass. ``slurm`` is None while Slurm does not answer: the last answer stays."""
        rows = list(_rows(changes))
        keys = frozenset((kind, text, name) for kind, text, _, name in rows)
        new = [row for row in rows if (row[0], row[1], row[3]) not in self._before]
        self._before = keys
        with self._lock:
            self._events.extend(_grouped(new, now.timestamp()))
            self._look = Snapshot(
                version=self._look.version + 1,
                slurm=self._look.slurm if slurm is None else slurm,
                kube=self._look.kube if kube is None else kube,
                pending=len(changes),
                switched_off=switched_off,
                events=tuple(self._events),
            )

    def note(self, text: str, now: datetime, *, warning: bool = False) -> None:
        """An event that is about no node."""
        event = BoardEvent(
            at=now.timestamp(), kind="bridge", text=text, warning=warning, nodes=(), count=0
        )
        with self._lock:
            self._events.append(event)


_Row = tuple[str, str, bool, str]


def _rows(changes: Iterable[Change]) -> Iterator[_Row]:
    """(kind, text, warning, node) of each change that a person wants to know of."""
    for change in changes:
        name = change.kube.name
        match change:
            case UpdateStatus(events=events):
                for event in events:
                    yield event.reason, event.note, event.warning, name
            case Isolate(cordon=cordon, taint=taint):
                words = ["cordon"] * cordon + [f"taint {taint}"] * (taint is not None)
                yield "isolate", f"{' and '.join(words) or 'record'} in Kubernetes", False, name
            case Release():
                yield "release", "cordon and taint of Holdfast removed", False, name
            case DrainInSlurm(rule=rule):
                why = "cordoned in Kubernetes" if rule is None else f"rule {rule.name}"
                yield "drain", f"drain in Slurm: {why}", False, name
            case UndrainInSlurm(slurm=node):
                reason = Reason.parse(node.reason)
                rule_name = (
                    reason.pairs.get("rule") if reason and reason.code == KUBE_RULE else None
                )
                why = (
                    "uncordoned in Kubernetes"
                    if rule_name is None
                    else f"rule {rule_name} matches no more"
                )
                yield "undrain", f"undrain in Slurm: {why}", False, name
            case _:
                pass


def _grouped(rows: Iterable[_Row], at: float) -> Iterator[BoardEvent]:
    """One event for all nodes of which the same is reported."""
    found: dict[tuple[str, str, bool], list[str]] = {}
    for kind, text, warning, name in rows:
        found.setdefault((kind, text, warning), []).append(name)
    kinds: dict[tuple[str, bool], list[tuple[str, list[str]]]] = {}
    for (kind, text, warning), names in found.items():
        kinds.setdefault((kind, warning), []).append((text, names))
    for (kind, warning), texts in kinds.items():
        if len(texts) > MOST_EVENTS // 4:  # a storm in which each node has a text of its own
            names = [name for _, some in texts for name in some]
            texts = [(f"{counted(len(texts), 'different reason')}", names)]
        for text, names in texts:
            yield BoardEvent(
                at=at, kind=kind, text=text, warning=warning,
                nodes=tuple(names[:_MOST_NAMES]), count=len(names),
            )  # fmt: skip

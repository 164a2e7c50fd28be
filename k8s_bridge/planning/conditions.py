"""A Slurm node's state as Kubernetes Node conditions and one label, by ``state_table``. Pure."""

from __future__ import annotations

from datetime import timezone
from typing import NamedTuple

from holdfast.node_states import NO_STATE
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState
from k8s_bridge.model.snapshot import Condition
from k8s_bridge.names import (
    BUSY,
    CONDITIONS,
    DRAINED,
    MAINTENANCE,
    MAX_MESSAGE_BYTES,
    POWER_SAVING,
    READY,
    REBOOTING,
    WHEN_TRUE,
)
from k8s_bridge.state_table import ROWS, TABLE, counted, first_shown

UNREADABLE = "SlurmUnreadable"
"""Condition reason: slurmctld does not answer, so the state is unknown: neither ready nor drained nor free."""
NOT_IN_SLURM = "NotInSlurm"
"""Condition reason: Slurm does not know this node."""


class Withheld(NamedTuple):
    """Why a node that is in service is not drained for what Kubernetes shows: reason and message of DRAINED."""

    reason: str
    why: str


_S = NodeState
_BASES = (_S.MIXED, _S.ALLOCATED, _S.IDLE, _S.FUTURE, _S.UNKNOWN)
_BUSY_TEXT = {
    _S.BLOCKED: "a job has this node's block for itself",
    _S.PLANNED: "a pending job is going to start here",
}
_WHEN_TRUE = {
    MAINTENANCE: ("InService", "the node is in no maintenance reservation"),
    REBOOTING: ("NotRequested", "Slurm reboots the node neither now nor later"),
    POWER_SAVING: ("PoweredUp", "power saving leaves the node on"),
}
"""Reason and message of these conditions where they are False."""


def clean(text: str) -> str:
    """One line without control characters, cut: reasons are free text."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return _cut(" ".join(printable.split()), MAX_MESSAGE_BYTES)


def _cut(text: str, most: int) -> str:
    """At most ``most`` bytes (the API server counts bytes)."""
    data = text.encode()
    if len(data) <= most:
        return text
    return data[: most - len("…".encode())].decode(errors="ignore") + "…"


def conditions(
    node: SlurmNode, withheld: Withheld | None = None, *, show_planned: bool = False
) -> tuple[Condition, ...]:
    """All conditions of this node, without times.

    ``withheld``: why no drain follows from what Kubernetes shows. ``show_planned``: PLANNED is the reason of
    BUSY too.
    """
    if node.states & NO_STATE:
        return unknown("Unknown", f"Slurm's state is {_states(node)}")
    states = counted(node.states)
    return (
        _ready(node, states),
        _drained(node, withheld),
        _busy(states if show_planned else states - {_S.PLANNED}),
        *(_when_true(node, states, condition) for condition in WHEN_TRUE),
    )


class Looks:
    """The conditions and the label of many nodes: most have the same ones."""

    def __init__(self, *, show_planned: bool):
        self._show_planned = show_planned
        self._found: dict[tuple[object, ...], tuple[tuple[Condition, ...], str]] = {}

    def of(self, node: SlurmNode, withheld: Withheld | None) -> tuple[tuple[Condition, ...], str]:
        """As ``conditions`` and ``label``."""
        by = (node.reason, node.reason_user, node.reason_at)
        key = (node.states, node.unknown_states, by, withheld)
        found = self._found.get(key)
        if found is None:
            shown = conditions(node, withheld, show_planned=self._show_planned)
            found = self._found[key] = shown, label(node)
        return found


def unknown(reason: str, message: str) -> tuple[Condition, ...]:
    """All conditions Unknown, for ``reason``."""
    return tuple(
        Condition(type=name, status="Unknown", reason=reason, message=clean(message))
        for name in CONDITIONS
    )


def label(node: SlurmNode) -> str:
    """The node's state as one word, a valid label value: sinfo's, in lower case."""
    states = counted(node.states)
    rows = [row for row in TABLE if row.state in states and row.label]
    word = next((row.label for row in rows if not row.on_idle), None)
    if word == ROWS[_S.DRAIN].label and node.busy:
        return "draining"
    return word or next((row.label for row in rows), "unknown")


def _ready(node: SlurmNode, states: frozenset[NodeState]) -> Condition:
    found = first_shown(states, READY)
    if found is None:
        return Condition(
            type=READY, status="True", reason="Responding", message="Slurm can use the node"
        )
    _, (_, status, reason) = found
    text = f": {node.reason}" if node.reason and status != "True" else ""
    message = clean(f"{_states(node)}{text}")
    return Condition(type=READY, status=status, reason=reason, message=message)


def _drained(node: SlurmNode, withheld: Withheld | None) -> Condition:
    if not node.drained_flag and withheld is not None:
        return Condition(
            type=DRAINED, status="False", reason=withheld.reason, message=clean(withheld.why)
        )
    if not node.drained_flag:
        return Condition(
            type=DRAINED,
            status="False",
            reason="NotDrained",
            message="the node accepts jobs if it is ready",
        )
    at = (
        f" at {node.reason_at.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
        if node.reason_at
        else ""
    )
    by = f" [{node.reason_user}{at}]" if node.reason_user else ""
    # A long reason is cut, never its user and time.
    text = _cut(clean(node.reason or "no reason given"), MAX_MESSAGE_BYTES - len(by.encode()))
    return Condition(
        type=DRAINED,
        status="True",
        reason="Draining" if node.busy else ROWS[_S.DRAIN].shown[0].reason,
        message=clean(text + by),
    )


def _busy(states: frozenset[NodeState]) -> Condition:
    found = first_shown(states, BUSY)
    if found is None:
        return Condition(type=BUSY, status="False", reason="Free", message="no job is on the node")
    state, (_, status, reason) = found
    message = _BUSY_TEXT.get(state, "a job or its epilog is on the node")
    return Condition(type=BUSY, status=status, reason=reason, message=message)


def _when_true(node: SlurmNode, states: frozenset[NodeState], condition: str) -> Condition:
    found = first_shown(states, condition)
    if found is None:
        reason, message = _WHEN_TRUE[condition]
        return Condition(type=condition, status="False", reason=reason, message=message)
    _, (_, status, reason) = found
    return Condition(type=condition, status=status, reason=reason, message=clean(_states(node)))


def _states(node: SlurmNode) -> str:
    """As scontrol prints them: the base state, then the flags. Without PLANNED, which comes and goes with
    each pass of the scheduler."""
    known = {state.value for state in node.states if state is not _S.PLANNED}
    bases = [base.value for base in (*_BASES, _S.DOWN, _S.ERROR) if base.value in known]
    return "+".join([*bases, *sorted(known - set(bases)), *node.unknown_states]) or "UNKNOWN"

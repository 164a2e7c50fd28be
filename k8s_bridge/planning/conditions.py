"""A Slurm node's state as Kubernetes Node conditions (three) and one label. Pure."""

from __future__ import annotations

from datetime import timezone

from holdfast.node_states import NO_STATE
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import NodeState
from k8s_bridge.names import BUSY, DRAINED, MAX_MESSAGE_BYTES, READY
from k8s_bridge.planning.snapshot import Condition

UNREADABLE = "SlurmUnreadable"
"""Condition reason: slurmctld does not answer, so the state is unknown: neither ready nor drained nor free."""
NOT_IN_SLURM = "NotInSlurm"
"""Condition reason: Slurm does not know this node."""

_S = NodeState
# (state or flag, status of READY, its reason); the first match wins. States as in slurm.h.
_READINESS = (
    (_S.UNKNOWN, "Unknown", "Unknown"),
    (_S.FUTURE, "Unknown", "Future"),
    (_S.DYNAMIC_FUTURE, "Unknown", "Future"),
    (_S.REBOOT_ISSUED, "False", "Rebooting"),
    (_S.POWERED_DOWN, "False", "PoweredDown"),
    (_S.POWERING_DOWN, "False", "PoweringDown"),
    (_S.POWERING_UP, "False", "PoweringUp"),
    (_S.INVALID_REG, "False", "InvalidRegistration"),
    (_S.DOWN, "False", "Down"),
    (_S.ERROR, "False", "Error"),
    (_S.FAIL, "False", "Fail"),
    # Not DOWN yet: slurmctld waits SlurmdTimeout before it sets the node DOWN.
    (_S.NOT_RESPONDING, "Unknown", "NotResponding"),
    (_S.MAINTENANCE, "True", "Maintenance"),
)
# The label, in sinfo's words; the first match wins.
_WORDS = (
    (_S.REBOOT_ISSUED, "rebooting"),
    (_S.POWERED_DOWN, "powered-down"),
    (_S.POWERING_DOWN, "powering-down"),
    (_S.POWERING_UP, "powering-up"),
    (_S.DOWN, "down"),
    (_S.ERROR, "error"),
    (_S.FAIL, "fail"),
)
_BASES = (_S.MIXED, _S.ALLOCATED, _S.IDLE, _S.FUTURE, _S.UNKNOWN)


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


def conditions(node: SlurmNode, withheld: str = "") -> tuple[Condition, ...]:
    """The three conditions of this node, without times.

    ``withheld``: why a cordon is not followed by a drain.
    """
    if node.states & NO_STATE:
        return unknown("Unknown", f"Slurm's state is {_states(node)}")
    return (_ready(node), _drained(node, withheld), _busy(node))


def unknown(reason: str, message: str) -> tuple[Condition, ...]:
    """All three Unknown, for ``reason``."""
    return tuple(
        Condition(type=name, status="Unknown", reason=reason, message=clean(message))
        for name in (READY, DRAINED, BUSY)
    )


def label(node: SlurmNode) -> str:
    """The node's state as one word, a valid label value."""
    word = next((word for state, word in _WORDS if state in node.states), None)
    if word is None and node.drained_flag:
        word = "draining" if node.busy else "drained"
    if word is None and _S.COMPLETING in node.states:
        word = "completing"
    return word or next((base.value.lower() for base in _BASES if base in node.states), "unknown")


def _ready(node: SlurmNode) -> Condition:
    for state, status, reason in _READINESS:
        if state in node.states:
            text = f": {node.reason}" if node.reason and status != "True" else ""
            return Condition(
                type=READY, status=status, reason=reason, message=clean(f"{_states(node)}{text}")
            )
    return Condition(
        type=READY, status="True", reason="Responding", message="Slurm can use the node"
    )


def _drained(node: SlurmNode, withheld: str) -> Condition:
    if not node.drained_flag and withheld:
        return Condition(
            type=DRAINED, status="False", reason="CordonNotFollowed", message=clean(withheld)
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
        reason="Draining" if node.busy else "Drained",
        message=clean(text + by),
    )


def _busy(node: SlurmNode) -> Condition:
    if node.busy:
        completing = _S.COMPLETING in node.states
        return Condition(
            type=BUSY,
            status="True",
            reason="Completing" if completing else "Allocated",
            message="a job or its epilog is on the node",
        )
    return Condition(type=BUSY, status="False", reason="Free", message="no job is on the node")


def _states(node: SlurmNode) -> str:
    """As scontrol prints them: the base state, then the flags."""
    known = {state.value for state in node.states}
    bases = [base.value for base in (*_BASES, _S.DOWN, _S.ERROR) if base.value in known]
    return "+".join([*bases, *sorted(known - set(bases)), *node.unknown_states]) or "UNKNOWN"

"""Each node as one letter for the grid, and a row for each node out of service. Pure.

Ten thousand nodes have few different states and reasons, so each combination is judged once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.drain_status import DrainStatus, Owner, drain_status
from holdfast.node_states import FAILED, NO_STATE, POWERED_OFF
from holdfast.reason import Reason
from holdfast.slurm.client import SlurmNode
from holdfast.slurm.topology import Group
from holdfast.vocabulary import NodeState
from k8s_bridge.model.snapshot import KubeNode

IDLE, BUSY, SUSPECT = "i", "b", "s"
FAULT, DOWN, DRAINED, CORDONED, MAINTENANCE, OFF, UNKNOWN = "F", "D", "p", "c", "m", "o", "u"

IN_SERVICE = IDLE + BUSY + SUSPECT
KINDS: Mapping[str, str] = {
    FAULT: "Fault, drained by Holdfast",
    DOWN: "Down",
    SUSPECT: "Suspect, in service",
    DRAINED: "Drained by a person or tool",
    CORDONED: "Cordoned, or drained by a rule",
    MAINTENANCE: "Maintenance",
    OFF: "Powered off",
    UNKNOWN: "Unknown",
    BUSY: "Busy",
    IDLE: "Idle",
}
"""Letter → what it means, in the order of the legend."""

_S = NodeState
_MOST_KNOWN = 50_000


class Out(NamedTuple):
    """A node that is out of service or suspect. ``place`` in the order of the grid; ``at`` in epoch
    seconds (None: not known).
    """

    place: int
    code: str
    reason: str
    owner: str
    user: str
    at: int | None
    busy: bool


class Judge:
    """Remembers the letter of each combination of states, reason and comment."""

    def __init__(self) -> None:
        self._letters: dict[tuple[object, ...], str] = {}

    def letter(self, node: SlurmNode, view: KubeNode | None) -> str:
        """The node's letter; ``view`` is its Node, if there is one."""
        cordoned = view is not None and view.unschedulable
        key = (node.states, node.reason, bool(node.comment) and node.comment, cordoned)
        found = self._letters.get(key)
        if found is None:
            if len(self._letters) > _MOST_KNOWN:
                self._letters.clear()
            found = self._letters[key] = _letter(node, drain_status(node), cordoned=cordoned)
        return found


def _letter(node: SlurmNode, status: DrainStatus, *, cordoned: bool) -> str:
    letter = ""
    if not node.states or node.states & NO_STATE:
        letter = UNKNOWN
    elif status.owner is Owner.AGENT:
        letter = FAULT
    elif node.states & POWERED_OFF and not node.states & FAILED - {_S.DOWN}:
        letter = OFF
    elif node.states & (FAILED | {_S.NOT_RESPONDING, _S.INVALID_REG}):
        letter = DOWN
    elif status.owner is Owner.BRIDGE or (cordoned and not node.drained_flag):
        letter = CORDONED
    elif node.drained_flag:
        letter = DRAINED
    elif node.states & {_S.MAINTENANCE, _S.REBOOT_ISSUED, _S.POWERING_UP}:
        letter = MAINTENANCE
    elif node.comment and Reason.parse(node.comment) is not None:
        letter = SUSPECT
    return letter or (BUSY if node.busy else IDLE)


def out_row(index: int, node: SlurmNode, letter: str) -> Out:
    """The row of a node whose letter is not that of a healthy one."""
    status = drain_status(node)
    reason = status.reason if letter != SUSPECT else Reason.parse(node.comment)
    text = node.reason if letter != SUSPECT else node.comment
    owner = {CORDONED: "kubernetes", SUSPECT: "holdfast-agent"}.get(letter, status.owner.value)
    return Out(
        place=index,
        code=reason.code if reason else "",
        reason=text or _without_reason(node, letter),
        owner=owner,
        user=node.reason_user,
        at=int(node.reason_at.timestamp()) if node.reason_at else None,
        busy=node.busy,
    )


def _without_reason(node: SlurmNode, letter: str) -> str:
    if letter == CORDONED:
        return "cordoned in Kubernetes, not drained in Slurm"
    return "+".join(sorted(state.value for state in node.states))


class Layout(NamedTuple):
    """``names`` of all nodes in the order of the grid. ``groups``: name, what is above it, how many nodes."""

    names: Sequence[str]
    groups: Sequence[tuple[str, str, int]]


def layout(
    names: Sequence[str], topology: Sequence[Group], natural: Callable[[str], Any]
) -> Layout:
    """The nodes by leaf switch or block; without a topology by the beginning of their names."""
    left = dict.fromkeys(names)
    ordered: list[str] = []
    groups: list[tuple[str, str, int]] = []
    for group in topology:
        members = sorted((name for name in group.nodes if name in left), key=natural)
        for name in members:
            del left[name]
        if members:
            ordered += members
            groups.append((group.name, group.above, len(members)))
    rest: dict[str, list[str]] = {}
    for name in sorted(left, key=natural):
        rest.setdefault(name.rstrip("0123456789").rstrip("-_.") or name, []).append(name)
    if topology and len(rest) > 1:
        rest = {"in no group": sorted(left, key=natural)}
    for prefix, members in rest.items():
        ordered += members
        groups.append((prefix, "", len(members)))
    return Layout(ordered, groups)


def detail(node: SlurmNode, view: KubeNode | None) -> dict[str, Any]:
    """All that is known here of one node, for its panel."""
    status = drain_status(node)
    return {
        "name": node.name,
        "states": sorted(state.value for state in node.states),
        "reason": node.reason,
        "user": node.reason_user,
        "at": int(node.reason_at.timestamp()) if node.reason_at else None,
        "comment": node.comment,
        "owner": status.owner.value,
        "title": status.fault.title if status.fault else "",
        "runbook": status.fault.runbook if status.fault else "",
        "how_to_resume": status.undo,
        "kubernetes": _kubernetes(view) if view else None,
    }


def _kubernetes(view: KubeNode) -> dict[str, Any]:
    conditions = [
        [each.type, each.status, each.message] for _, each in sorted(view.conditions.items())
    ]
    return {
        "name": view.name,
        "cordoned": view.unschedulable,
        "cordoned_by": view.cordoned_by,
        "taint": view.taint,
        "conditions": conditions,
    }

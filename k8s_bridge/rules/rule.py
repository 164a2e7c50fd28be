"""A rule: what Kubernetes shows on a Node, and after how long its Slurm node is drained for it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from k8s_bridge.model.snapshot import KubeNode

ABSENT = "absent"
"""In ``Rule.bad``: the Node has no such condition."""
STATUSES = ("True", "False", "Unknown", ABSENT)
SHORTEST_S = 600.0
"""So much time have jobs from the begin of the signal on, if the machine is not stopped before."""
GONE = "node-gone"
"""Name of the rule for Nodes that were deleted."""


class RuleMode(str, Enum):
    """What follows when a rule matches."""

    OFF = "off"
    OBSERVE = "observe"
    """The condition HoldfastSlurmDrained says what the rule would do."""
    DRAIN = "drain"
    """The node is drained in Slurm, within `bridge.budget`, and undrained when the rule matches no more."""


class JobsMode(str, Enum):
    """What the running jobs of a node do that is drained for a rule."""

    STAY = "stay"
    """They go on."""
    LEAVE = "leave"
    """Those of `holdfast run` save a checkpoint and are requeued, before the machine is stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. Exactly one of ``condition``, ``taint`` and ``pod`` is set, except for the rule ``GONE``.

    ``bad``: the condition's statuses that match. ``taint``: ``KEY`` or ``KEY=VALUE``. ``pod``: a condition of
    the node's worker pod, which matches while it is True. ``hold_s``: how long it
    has to match without a break before the drain; ``clear_s``: how long not, before the undrain. ``about``:
    where the signal comes from, one clause.

    ``jobs``: what running jobs do. The machine is stopped at the time that the signal names, else ``notice_s``
    after it began, else at an unknown time; jobs have left ``reserve_s`` earlier, but have ``SHORTEST_S`` if the
    machine runs so long.
    """

    name: str
    mode: RuleMode = RuleMode.OBSERVE
    condition: str = ""
    bad: tuple[str, ...] = ("True",)
    taint: str = ""
    pod: str = ""
    hold_s: float = 0.0
    clear_s: float = 60.0
    jobs: JobsMode = JobsMode.STAY
    notice_s: float | None = None
    reserve_s: float = 0.0
    about: str = ""

    def matches(self, node: KubeNode) -> bool:
        """Does the Node show it now?"""
        if not node.follows_rules:
            return False
        if self.condition:
            return self._status(node) in self.bad
        if self.pod:
            return node.disruption is not None
        return any(self._is_taint(taint) for taint in node.foreign_taints) if self.taint else False

    def since(self, node: KubeNode) -> float | None:
        """When the condition got its present status, epoch seconds; ``None`` where the Node does not say."""
        if self.pod:
            return node.disruption.since if node.disruption else None
        return node.foreign_since(self.condition) if self.condition else None

    def until(self, node: KubeNode, since: float | None) -> float | None:
        """When jobs have to have left, epoch seconds, for a signal that began at ``since``; ``None``: not known,
        or jobs stay.
        """
        if self.jobs is JobsMode.STAY:
            return None
        named = node.deadline(self.condition) if self.condition else None
        if self.pod and node.disruption is not None:
            named = node.disruption.until
        if named is None and self.notice_s is not None and since is not None:
            named = since + self.notice_s
        if named is None or since is None:
            return named
        return max(named - self.reserve_s, min(named, since + SHORTEST_S))

    def shown(self, node: KubeNode) -> str:
        """What the Node shows, for people."""
        if self.condition:
            return f"{self.condition} is {self._status(node)}"
        if self.pod:
            return f"{self.pod} of the worker pod: {node.disruption.reason if node.disruption else 'no more'}"
        return f"taint {self.taint}" if self.taint else "the Node was deleted"

    def _status(self, node: KubeNode) -> str:
        return node.foreign_status(self.condition) or ABSENT

    def _is_taint(self, taint: tuple[str, str]) -> bool:
        key, _, value = self.taint.partition("=")
        return taint[0] == key and (not value or taint[1] == value)


class Cause(NamedTuple):
    """A rule that holds for a Node.

    ``withheld``: why no drain follows from it (mode observe, the budget, an incident); empty: one does.
    ``until``: when running jobs have to have left, epoch seconds; ``None``: not known, or they stay.
    """

    rule: Rule
    text: str
    withheld: str = ""
    until: float | None = None

"""The rules and the budget in section ``bridge`` of the configuration."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from holdfast.config.bounds import within
from holdfast.text.wording import suggest
from k8s_bridge.names import TAINT
from k8s_bridge.rules.catalogue import BUILT_IN, MIRRORS
from k8s_bridge.rules.rule import STATUSES, JobsMode, Rule, RuleMode

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_CLEAR_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSettings:
    """A built-in rule with other settings (``use``), or a rule of the site's own (``name``)."""

    use: str = ""
    """Name of a built-in rule: [node-rules.md](node-rules.md)."""
    name: str = ""
    """Name of a new rule; it is in the drain's reason."""
    mode: RuleMode = RuleMode.OBSERVE
    condition: str = ""
    """The type of a Node condition."""
    bad: tuple[Literal["True", "False", "Unknown", "absent"], ...] = ("True",)
    """The statuses that match. `absent`: the Node has no such condition."""
    taint: str = ""
    """KEY or KEY=VALUE of a taint, with any effect."""
    hold_s: float | None = None
    """How long it has to match without a break before the node is drained. null: the value of the
    built-in rule, or 0 for a new rule."""
    clear_s: float | None = None
    """How long it has to match no more before the node is undrained. null: the value of the
    built-in rule, or 60 for a new rule."""
    jobs: JobsMode | None = None
    """What running jobs do. null: that of the built-in rule, or `stay` for a new rule."""
    notice_s: float | None = None
    """With `jobs: leave`: how long after the signal began the machine is stopped, where the signal does
    not say it. null: the value of the built-in rule, or not known for a new rule."""

    def __post_init__(self) -> None:
        for field in ("hold_s", "clear_s", "notice_s"):
            if getattr(self, field) is not None:
                within(self, **{field: (0, 86400)})
        if bool(self.use) == bool(self.name):
            raise ValueError("a rule needs either use (a built-in rule) or name (a new one)")
        if self.use and self.use not in BUILT_IN:
            raise ValueError(
                f"use must name a built-in rule, got {self.use!r}{suggest(self.use, BUILT_IN)}"
            )
        if self.use and (self.condition or self.taint or self.bad != ("True",)):
            raise ValueError(f"use is for the built-in rule {self.use!r}; to change what it looks at, "
                             "give a new rule a name")  # fmt: skip
        if self.name:
            self._check_new()

    def _check_new(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name must consist of a-z, 0-9 and -, got {self.name!r}")
        if self.name in BUILT_IN:
            raise ValueError(f"name is that of a built-in rule; write use: {self.name}")
        if bool(self.condition) == bool(self.taint):
            raise ValueError(f"the rule {self.name!r} needs either condition or taint")
        if self.condition.startswith(MIRRORS):
            raise ValueError(
                f"condition must not be one that shows Slurm's own state, got {self.condition!r}; "
                "a drain for it would never end"
            )
        if self.taint.partition("=")[0] == TAINT:
            raise ValueError(f"taint must not be the bridge's own, got {self.taint!r}")
        if not self.bad or set(self.bad) >= set(STATUSES):
            raise ValueError(
                f"bad must leave a status with which a node stays in service, got {list(self.bad)}; "
                "it would match every node"
                if self.bad
                else "bad must have a status, got none"
            )

    @property
    def rule(self) -> Rule:
        """The rule that results."""
        rule = (
            BUILT_IN[self.use]
            if self.use
            else Rule(
                name=self.name,
                condition=self.condition,
                bad=self.bad,
                taint=self.taint,
                clear_s=_CLEAR_S,
            )
        )
        return replace(
            rule,
            mode=self.mode,
            hold_s=rule.hold_s if self.hold_s is None else self.hold_s,
            clear_s=rule.clear_s if self.clear_s is None else self.clear_s,
            jobs=rule.jobs if self.jobs is None else self.jobs,
            notice_s=rule.notice_s if self.notice_s is None else self.notice_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeBudget:
    """How many nodes may be out of service by Holdfast while the bridge takes out one more.

    All count: drains by agents and by rules, and Nodes isolated for their state. A person's drain and
    cordon do not, and returns to service are always allowed.
    """

    max_nodes: int = 2
    max_share: float = 0.1
    """Share of all nodes, 0 to 1; the larger of the two counts, as in `node.budget`."""
    domain_label: str = ""
    """Node label with the failure domain (rack, block, leaf switch), such as
    `topology.kubernetes.io/zone`. Empty: the leaf switches or blocks of Slurm's topology, if it has one.
    """
    domain_share: float = 0.5
    """Share of the nodes of a failure domain, 0 to 1; in a domain, too, no more may be out of service. One
    node always may, if `max_nodes` and `max_share` allow it.
    """
    incident_share: float = 0.5
    """If rules match more than this share of all nodes, or of a failure domain with at least 3 nodes, it
    is an incident of the cluster: no node of it is drained, and the bridge says so.
    """

    def __post_init__(self) -> None:
        if self.max_nodes < 0:
            raise ValueError(f"max_nodes must not be negative, got {self.max_nodes}")
        within(self, max_share=(0, 1), incident_share=(0, 1), domain_share=(0, 1))
        if self.domain_label and not self.domain_label.startswith(("topology.", "holdfast.dev/")):
            raise ValueError(
                "domain_label must begin with topology. or holdfast.dev/ (the bridge keeps no other "
                f"label in memory), got {self.domain_label!r}"
            )


def effective(settings: Sequence[RuleSettings]) -> tuple[Rule, ...]:
    """All rules: the built-in ones as the configuration changes them, then the new ones, without those
    that are off.
    """
    changed = {one.rule.name: one.rule for one in settings}
    rules = {**BUILT_IN, **changed}
    return tuple(rule for rule in rules.values() if rule.mode is not RuleMode.OFF)

"""Which rules hold for which Nodes, how long already, and which of them may drain a node now.

Reads only its arguments. What it keeps between two looks is when something was first seen where the API does
not say it. After a restart such a time begins again; the causes of a drain are in its record.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

from holdfast.node_states import NOT_DEFINED, POWERED_OFF
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import KubeName, NodeState, SlurmName
from k8s_bridge.config import BridgeConfig
from k8s_bridge.model.disruption import Disruption
from k8s_bridge.model.node_mapping import kube_name
from k8s_bridge.model.snapshot import KubeNode
from k8s_bridge.planning import budget
from k8s_bridge.rules.rule import GONE, Cause, Rule, RuleMode
from k8s_bridge.rules.settings import effective

FLAPS = 10
"""So many changes of one condition within ``FLAP_S`` are worth a line in the log."""
FLAP_S = 60.0
SILENT_S = 600.0
"""The same line appears once in this time."""
MOST_FORMS = 10_000
"""For so many combinations of taints and conditions it is kept which rules match them."""


Hits = tuple[tuple[Rule, bool], ...]
_NO_PODS: Mapping[SlurmName, Disruption] = {}
_NO_DOMAINS: budget.Domains = {}


@dataclass(slots=True)
class _Memory:
    """What is known of one Node. ``hits``: the rules that match, and those that do not but for which the node
    was drained. ``first``: when each of these was first seen so.
    """

    view: KubeNode
    hits: Hits = ()
    first: dict[tuple[str, bool], float] = field(default_factory=dict)
    changes: dict[str, deque[float]] = field(default_factory=dict)
    shown: KubeNode | None = None
    gone_at: float | None = None


class Signals:
    """The rules of one configuration, and what was seen of each Node."""

    def __init__(self, policy: BridgeConfig):
        self._policy = policy
        self._rules = effective(policy.rules)
        self._gone = next((rule for rule in self._rules if rule.name == GONE), None)
        self._known: dict[KubeName, _Memory] = {}
        self._last: tuple[tuple[object, ...], list[KubeNode]] | None = None
        self._with_pod: dict[KubeName, tuple[KubeNode, KubeNode]] = {}
        self._said: dict[str, float] = {}
        self._notices: list[str] = []
        self._matches: dict[tuple[object, ...], frozenset[Rule]] = {}

    def look(
        self,
        slurm: Sequence[SlurmNode],
        kube: Sequence[KubeNode],
        now: datetime,
        pods: Mapping[SlurmName, Disruption] = _NO_PODS,
        domains: budget.Domains = _NO_DOMAINS,
    ) -> list[KubeNode]:
        """The Nodes with ``causes`` and ``not_isolated`` filled in, and those that are gone. An unchanged
        Node is the same object as in the last look. ``pods``: the worker pods that Kubernetes ends;
        ``domains``: the nodes' leaf switches or blocks.
        """
        # Watches that brought nothing hand over the same objects: then nothing has to be
        # computed.
        given = (slurm, kube, pods, domains)
        if self._last is not None and all(map(operator.is_, self._last[0], given)):
            return self._last[1]
        at = now.timestamp()
        nodes = {kube_name(node, self._policy): node for node in slurm}
        views = self._disrupted([*kube, *self._missing(kube, nodes, at)], nodes, pods)
        causes = {view.name: found for view in views if (found := self._causes(view, at))}
        decided = budget.decide(slurm, nodes, views, causes, self._policy, domains)
        for line in decided.incidents:
            self._say(line, at)
        shown = [self._shown(view, decided) for view in views] if decided.any else views
        # Only a rule that matches, or did, depends on the time.
        waits = any(memory.hits or memory.gone_at is not None for memory in self._known.values())
        self._last = None if waits else (given, shown)
        return shown

    def notices(self) -> list[str]:
        """Lines for the log that arose since the last call."""
        lines, self._notices = self._notices, []
        return lines

    def _disrupted(
        self,
        views: list[KubeNode],
        nodes: Mapping[KubeName, SlurmNode],
        pods: Mapping[SlurmName, Disruption],
    ) -> list[KubeNode]:
        """The Nodes, those with ``disruption`` whose worker pod is in ``pods``."""
        if not pods:
            self._with_pod = {}
            return views
        before, self._with_pod = self._with_pod, {}
        shown = []
        for view in views:
            node = nodes.get(view.name)
            found = pods.get(node.name) if node is not None else None
            if found is not None:
                plain, known = before.get(view.name, (None, None))
                if known is None or plain is not view or known.disruption != found:
                    known = replace(view, disruption=found)
                self._with_pod[view.name] = view, known
                view = known
            shown.append(view)
        return shown

    def _missing(
        self, kube: Sequence[KubeNode], nodes: Mapping[KubeName, SlurmNode], at: float
    ) -> list[KubeNode]:
        """The last views of Nodes that were deleted and on which Slurm still has a node."""
        present = {view.name for view in kube}
        missing = []
        for name in [name for name in self._known if name not in present]:
            memory, node = self._known[name], nodes.get(name)
            # Slurm does not count on the machine either: its Node may go.
            if node is None or node.states & (NOT_DEFINED | POWERED_OFF | {NodeState.EXTERNAL}):
                del self._known[name]
                continue
            if memory.gone_at is None:
                memory.gone_at = at
                memory.view = replace(memory.view, gone=True, disruption=None)
            missing.append(memory.view)
        return missing

    def _causes(self, view: KubeNode, at: float) -> tuple[Cause, ...]:
        if view.gone:
            memory = self._known[view.name]
            rule, since = self._gone, memory.gone_at
            # A Node may be deleted and made again when a machine is replaced, so its absence has
            # to last, too.
            held = rule is not None and since is not None and at - since >= rule.hold_s
            return (_cause(rule, view, since),) if rule and held and view.follows_rules else ()
        memory = self._memory(view, at)
        found = []
        for rule, matches in memory.hits:
            since = rule.since(view)
            # Another machine's clock wrote the time; one in the future would delay the rule
            # without end.
            if since is None or since > at:
                since = memory.first[(rule.name, matches)]
            wait_s = rule.hold_s if matches else rule.clear_s
            # A rule for which the node is drained needs no second waiting time after a restart of
            # the bridge.
            settled = at - since >= wait_s or (matches and rule.name in view.drained_for)
            if settled == matches:
                found.append(_cause(rule, view, since if matches else None))
        return tuple(found)

    def _memory(self, view: KubeNode, at: float) -> _Memory:
        memory = self._known.get(view.name)
        if memory is not None and memory.view is view:
            return memory
        # The same name with another uid is another machine.
        if memory is None or memory.view.uid != view.uid:
            memory = self._known[view.name] = _Memory(view=view)
        before = {rule.name for rule, matched in memory.hits if matched}
        matching = self._matching(view)
        if not matching and not before and not view.drained_for:  # nearly all Nodes
            memory.hits, memory.first = (), {}
            memory.view, memory.gone_at = view, None
            return memory
        hits = []
        for rule in self._rules:
            matches = rule in matching
            if matches != (rule.name in before):
                self._changed(rule, view, memory, at)
            if matches or rule.name in view.drained_for:
                hits.append((rule, matches))
        memory.hits = tuple(hits)
        keys = [(rule.name, matches) for rule, matches in hits]
        memory.first = {key: memory.first.get(key, at) for key in keys}
        memory.view, memory.gone_at = view, None
        return memory

    def _matching(self, view: KubeNode) -> frozenset[Rule]:
        """The rules that match. Rules read the taints and the statuses of conditions only, and most Nodes
        have the same ones.
        """
        pod = view.disruption is not None
        key = (view.follows_rules, view.foreign_taints, view.other_conditions, pod)
        found = self._matches.get(key)
        if found is None:
            # Values in taints may be of any number (a time, for example): the cache must not grow
            # without limit.
            if len(self._matches) >= MOST_FORMS:
                self._matches.clear()
            found = frozenset(rule for rule in self._rules if rule.matches(view))
            self._matches[key] = found
        return found

    def _changed(self, rule: Rule, view: KubeNode, memory: _Memory, at: float) -> None:
        changes = memory.changes.setdefault(rule.name, deque(maxlen=FLAPS))
        changes.append(at)
        if len(changes) == FLAPS and at - changes[0] <= FLAP_S:
            self._say(
                f"rule {rule.name}: {rule.condition or rule.taint or rule.pod} of {view.name} changed {FLAPS} times in "
                f"{FLAP_S:g} s; it counts once it stands for {rule.hold_s:g} s (bridge.rules: hold_s)",
                at,
            )

    def _say(self, line: str, at: float) -> None:
        if at - self._said.get(line, float("-inf")) >= SILENT_S:
            self._said = {k: v for k, v in self._said.items() if at - v < SILENT_S} | {line: at}
            self._notices.append(line)

    def _shown(self, view: KubeNode, decided: budget.Decision) -> KubeNode:
        causes = decided.causes.get(view.name, ())
        not_isolated = decided.not_isolated.get(view.name, "")
        if not causes and not not_isolated:
            return view
        memory = self._known[view.name]
        shown = replace(view, causes=causes, not_isolated=not_isolated)
        if memory.shown != shown:
            memory.shown = shown
        return memory.shown or shown


def _cause(rule: Rule, view: KubeNode, since: float | None) -> Cause:
    text = f"rule {rule.name}: {rule.shown(view)}"
    if since is not None:
        text += f" since {datetime.fromtimestamp(since, timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    withheld = "" if rule.mode is RuleMode.DRAIN else "mode observe"
    return Cause(rule, text, withheld, rule.until(view, since))


def rule_names(causes: Iterable[Cause]) -> tuple[str, ...]:
    """The names of the rules that drain, also where the budget withholds it."""
    return tuple(cause.rule.name for cause in causes if cause.rule.mode is RuleMode.DRAIN)

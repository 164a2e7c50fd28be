"""The kill switches of the nodes, from their histories. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.history.event import AGENT_STARTED, KILL_SWITCHES, Event


def switches_on(events: Iterable[Event]) -> frozenset[str]:
    """The kill switches that are on, from one node's events, oldest first."""
    on: frozenset[str] = frozenset()
    for event in events:
        if event.event in (AGENT_STARTED, KILL_SWITCHES):
            names = event.facts.get("on")
            on = frozenset(map(str, names)) if isinstance(names, list) else frozenset()
    return on


def of_nodes(events: Iterable[Event]) -> dict[str, list[str]]:
    """Node -> its kill switches that are on, as far as its history is here."""
    by_node: dict[str, list[Event]] = {}
    for event in events:
        by_node.setdefault(event.node, []).append(event)
    return {node: sorted(switches_on(own)) for node, own in by_node.items()}


def by_name(of: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Kill switch -> the nodes on which it is on, both sorted."""
    found: dict[str, list[str]] = {}
    for node, switches in sorted(of.items()):
        for name in switches:
            found.setdefault(name, []).append(node)
    return dict(sorted(found.items()))

"""Events of a storm: many Nodes with the same transition get one Event together. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from holdfast.slurm.hostlist import compress
from holdfast.vocabulary import KubeName
from k8s_bridge.model.changes import NodeEvent, UpdateStatus
from k8s_bridge.planning.conditions import clean

MOST = 20
"""More Events than this for the same transition in one plan are one Event, and more isolations than this
come after all conditions."""
_NAMES_BYTES = 700

Key = tuple[KubeName, str, NodeEvent]


class Summaries(NamedTuple):
    """``events`` about the cluster to create now, and the keys of all Node Events that they, or earlier
    ones, stand for."""

    events: tuple[NodeEvent, ...]
    covered: frozenset[Key]


def summarize(updates: Iterable[UpdateStatus], covered: frozenset[Key]) -> Summaries:
    """``covered``: what the summaries of the previous plans stand for."""
    groups: dict[tuple[str, bool], list[tuple[UpdateStatus, NodeEvent]]] = defaultdict(list)
    kept: set[Key] = set()
    for update in updates:
        for event in update.events:
            key = key_of(update, event)
            if key in covered:
                kept.add(key)
            else:
                groups[event.reason, event.warning].append((update, event))
    events = []
    for (reason, warning), rows in sorted(groups.items()):
        if len(rows) > MOST:
            events.append(_summary(reason, warning, rows))
            kept |= {key_of(update, event) for update, event in rows}
    return Summaries(tuple(events), frozenset(kept))


def key_of(update: UpdateStatus, event: NodeEvent) -> Key:
    """What distinguishes an Event from every other one."""
    return update.kube.name, update.kube.uid, event


def _summary(
    reason: str, warning: bool, rows: Sequence[tuple[UpdateStatus, NodeEvent]]
) -> NodeEvent:
    names = compress(update.kube.name for update, _ in rows)
    first, event = rows[0]
    short = names if len(names.encode()) <= _NAMES_BYTES else f"{first.kube.name} and others"
    note = clean(f"{len(rows)} Nodes ({short}); of {first.kube.name}: {event.note}")
    since = min(event.since for _, event in rows)
    return NodeEvent(reason=reason, note=note, warning=warning, since=since)

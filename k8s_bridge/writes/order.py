"""The order in which a plan's changes to Nodes are written. Pure.

Nodes with an action or a transition come first, the oldest transition first. A thousand drains for one
cause do not delay a drain for another: the causes take turns. Where many Nodes are to be isolated, all of
them are reported first: who has to act learns of the whole storm in half the time, and Slurm starts no job
there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

from holdfast.reason import Reason
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import KubeName
from k8s_bridge.model.changes import Isolate, Release, UpdateStatus, WriteRecord
from k8s_bridge.writes.storm import MOST

KubeChange = Isolate | Release | WriteRecord | UpdateStatus

_NEVER = datetime.max.replace(tzinfo=timezone.utc)


def in_order(changes: Iterable[KubeChange]) -> list[list[KubeChange]]:
    """The changes of each Node together, urgent Nodes first. A Node's own changes keep their order."""
    by_node: dict[KubeName, list[KubeChange]] = defaultdict(list)
    for change in changes:
        by_node[change.kube.name].append(change)
    urgent: list[list[KubeChange]] = []
    rest: list[list[KubeChange]] = []
    for own in by_node.values():
        (urgent if _is_urgent(own) else rest).append(own)
    return [*_reported_first(_by_turns(urgent)), *rest]


def _reported_first(nodes: list[list[KubeChange]]) -> list[list[KubeChange]]:
    """In a storm, the isolations come after all conditions. Both keep their order."""
    if sum(isinstance(change, Isolate) for own in nodes for change in own) <= MOST:
        return nodes
    reports: list[list[KubeChange]] = []
    isolations: list[list[KubeChange]] = []
    for own in nodes:
        reports.append([change for change in own if not isinstance(change, Isolate)])
        isolations.append([change for change in own if isinstance(change, Isolate)])
    return [own for own in (*reports, *isolations) if own]


def _is_urgent(own: Sequence[KubeChange]) -> bool:
    return any(not isinstance(change, UpdateStatus) or change.events for change in own)


def _by_turns(nodes: Sequence[list[KubeChange]]) -> list[list[KubeChange]]:
    """One Node of each cause, then the second of each, and so on."""
    causes: dict[tuple[str, str], list[tuple[datetime, list[KubeChange]]]] = defaultdict(list)
    for own in nodes:
        at, cause = _transition(own)
        causes[cause].append((at, own))
    turns = []
    for rows in causes.values():
        rows.sort(key=lambda row: row[0])
        turns += [(turn, at, own) for turn, (at, own) in enumerate(rows)]
    turns.sort(key=lambda row: row[:2])
    return [own for _, _, own in turns]


def _transition(own: Sequence[KubeChange]) -> tuple[datetime, tuple[str, str]]:
    """When Slurm's state changed, and its cause: the user and the code (or the text) of the reason."""
    for change in own:
        if isinstance(change, Isolate):
            return change.record.at or _NEVER, _cause(change.record.by, change.record.reason)
        node = change.slurm if isinstance(change, UpdateStatus) else None
        if isinstance(node, SlurmNode) and node.reason_at is not None:
            return node.reason_at, _cause(node.reason_user, node.reason)
    return _NEVER, ("", "")


def _cause(user: str, text: str) -> tuple[str, str]:
    reason = Reason.parse(text)
    return user, reason.code if reason is not None else text

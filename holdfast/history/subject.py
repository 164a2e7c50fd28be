"""Select from a history the events of one node or one GPU. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.history import lemon
from holdfast.history.event import GPU_REPLACED, INVENTORY, MACHINE_REPLACED, Event
from holdfast.history.lemon import Score

_SHORTEST = 8
"""The least number of characters that identify a GPU by its UUID, including ``GPU-``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectHistory:
    """``events`` are all that concern it, ``counted`` those that count for its score.

    ``gpus`` are the GPUs of the node's last inventory.
    """

    kind: str
    name: str
    events: Sequence[Event]
    counted: Sequence[Event]
    gpus: Sequence[Mapping[str, Any]] = ()


def of_node(name: str, events: Iterable[Event]) -> SubjectHistory:
    """A node's past, and that of its GPUs in other nodes or under an earlier name of this one.

    Events of another machine with the same name do not count (rule 10), nor those of a GPU that was
    removed from the node.
    """
    found = list(events)
    own = [event for event in found if event.node == name]
    since = max((event.t for event in own if event.event == MACHINE_REPLACED), default=0.0)
    gpus = gpus_of(event for event in own if event.t >= since)
    here = {gpu["gpu_uuid"] for gpu in gpus}
    elsewhere = [e for e in found if e.node != name and e.gpu_uuid and e.gpu_uuid in here]
    counted = [
        event
        for event in own
        if event.t >= since and (not event.gpu_uuid or not here or event.gpu_uuid in here)
    ]
    return SubjectHistory(
        kind="node",
        name=name,
        events=sorted([*own, *elsewhere], key=lambda event: event.t),
        counted=[*counted, *elsewhere],
        gpus=gpus,
    )


def gpus_of(own: Iterable[Event]) -> list[Mapping[str, Any]]:
    """The GPUs of the last inventory among one node's events."""
    last: list[Mapping[str, Any]] = []
    for event in own:
        gpus = event.facts.get("gpus")
        if event.event == INVENTORY and isinstance(gpus, list):
            last = [gpu for gpu in gpus if isinstance(gpu, dict) and gpu.get("gpu_uuid")]
    return last


def of_gpu(name: str, events: Iterable[Event]) -> SubjectHistory | None:
    """A GPU's past by its UUID (the first characters are enough) or its board's serial, wherever it
    was; None where no GPU or more than one matches.
    """
    found = list(events)
    uuids = {uuid for event in found for uuid in _named(name, event)}
    if len(uuids) != 1:
        return None
    (uuid,) = uuids
    events_of = [event for event in found if event.gpu_uuid == uuid or _concerns(uuid, event)]
    # That it replaced another GPU is no fault of its own.
    counted = [e for e in events_of if e.gpu_uuid == uuid and e.event != GPU_REPLACED]
    return SubjectHistory(kind="gpu", name=uuid, events=events_of, counted=counted)


def _named(name: str, event: Event) -> list[str]:
    """The GPUs of this event that match the name."""
    pairs = [(event.gpu_uuid, event.serial)]
    pairs.append((str(event.facts.get("replaced_uuid") or ""), ""))
    gpus = event.facts.get("gpus")
    if event.event == INVENTORY and isinstance(gpus, list):
        inside = [gpu for gpu in gpus if isinstance(gpu, dict)]
        pairs += [(str(gpu.get("gpu_uuid") or ""), str(gpu.get("serial") or "")) for gpu in inside]
    return [uuid for uuid, serial in pairs if uuid and _matches(name, uuid, serial)]


def _matches(name: str, uuid: str, serial: str) -> bool:
    return name in (uuid, serial) or (len(name) >= _SHORTEST and uuid.startswith(name))


def _concerns(uuid: str, event: Event) -> bool:
    if event.facts.get("replaced_uuid") == uuid:
        return True
    gpus = event.facts.get("gpus")
    return event.event == INVENTORY and isinstance(gpus, list) and uuid in str(gpus)


def ranking(events: Iterable[Event], now: float) -> list[tuple[SubjectHistory, Score]]:
    """Every node of a history, the worst first; ``now`` in epoch seconds."""
    found = list(events)
    by_node: dict[str, list[Event]] = {}
    by_gpu: dict[str, list[Event]] = {}
    for event in found:
        by_node.setdefault(event.node, []).append(event)
        if event.gpu_uuid:
            by_gpu.setdefault(event.gpu_uuid, []).append(event)
    pasts = []
    for name, own in by_node.items():
        uuids = {gpu["gpu_uuid"] for gpu in gpus_of(own)}
        elsewhere = [e for uuid in uuids for e in by_gpu.get(uuid, ()) if e.node != name]
        pasts.append(of_node(name, [*own, *elsewhere]))
    known = lemon.known_signals(found)
    reference = lemon.reference_of([lemon.count_of(past.counted, now) for past in pasts])
    rows = [
        (past, lemon.score(past.counted, now, known=known, reference=reference)) for past in pasts
    ]
    return sorted(rows, key=lambda row: (-row[1].value, row[0].name))

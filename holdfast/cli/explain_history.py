"""A node's past for ``holdfast explain``, asked of ``holdfast history`` in a process of its own.

Its folder may lie on a filesystem that does not answer; here it gets a few seconds and no more.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.adapters.command import run
from holdfast.errors import CommandError
from holdfast.history.event import CLOSED, OPENED, Event, of_record
from holdfast.history.lemon import Score
from holdfast.history.page import counted, sentence

_ANSWER_S = 5.0
_LAST = 3
_DEEDS = ("drained", "given_back", "withdrawn", "resumed", "over_budget", "active_check")


def look(name: str) -> tuple[dict[str, Any] | None, str]:
    """What the history that can be read from here knows of the node (``None``: nothing), and why it
    could not be read.
    """
    argv = [sys.executable, "-I", "-m", "holdfast", "history", name, "--json"]
    try:
        return summary(json.loads(run(argv, timeout_s=_ANSWER_S))), ""
    except CommandError as error:
        said = " ".join(error.output.removeprefix("holdfast history: ").split())
        return None, "" if said.startswith("nothing is known") else said or error.problem
    except (ValueError, KeyError, TypeError) as error:
        return None, f"an answer that is none: {error}"


def summary(said: Mapping[str, Any]) -> dict[str, Any]:
    """Score, open findings and the last deeds, out of ``holdfast history NODE --json``. Pure.

    Raises KeyError, ValueError or TypeError for what is no such answer.
    """
    events = [event for record in said["events"] if (event := of_record(record)) is not None]
    score = Score(
        value=float(said["score"]),
        counts=said["counts"],
        reference=said["reference"],
    )
    deeds = [event for event in events if event.event in _DEEDS]
    return {
        "score": score.value,
        "rating": score.word.value,
        "counted": counted(score),
        "open": [_told(event) for event in still_open(events)],
        "last": [_told(event) for event in deeds[-_LAST:]],
    }


def still_open(events: Iterable[Event]) -> list[Event]:
    """The findings that opened and of which no end is written down. Pure."""
    found: dict[tuple[object, ...], Event] = {}
    for event in events:
        key = (event.code, event.gpu_uuid, event.facts.get("subject"))
        if event.event == OPENED:
            found[key] = event
        elif event.event == CLOSED:
            found.pop(key, None)
    return list(found.values())


def _told(event: Event) -> dict[str, Any]:
    return {"t": event.t, "event": event.event.replace("_", " "), "text": sentence(event)}

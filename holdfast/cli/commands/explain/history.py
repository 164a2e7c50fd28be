"""A node's history for ``holdfast explain``, read by ``holdfast history`` in a separate process.

The folder may be on a filesystem that does not answer; the process gets a few seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.adapters.command import complete
from holdfast.errors import CommandError
from holdfast.history.event import CLOSED, OPENED, Event, of_record
from holdfast.history.kill_switches import switches_on
from holdfast.history.lemon import Score
from holdfast.history.page import counted, sentence
from holdfast.own_program import own_program

_ANSWER_S = 5.0
_LAST = 3
_ACTIONS = ("drained", "returned_to_service", "withdrawn", "resumed", "over_budget", "active_check")


def look(name: str) -> tuple[dict[str, Any] | None, str]:
    """The node's history as far as it can be read on this machine (``None``: there is none), and why it
    could not be read.
    """
    argv = own_program("holdfast", "history", name, "--json")
    try:
        done = complete(argv, timeout_s=_ANSWER_S)
        if done.out:
            return summary(json.loads(done.out)), ""
    except CommandError as error:
        return None, error.problem
    except (ValueError, KeyError, TypeError) as error:
        return None, f"unexpected output: {error}"
    message = " ".join(done.err.removeprefix("holdfast history: ").split())
    return None, "" if message.startswith("no events") else message or "no output"


def summary(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Score, open findings and the last actions, from ``holdfast history NODE --json``. Pure.

    Raises KeyError, ValueError or TypeError for any other input.
    """
    events = [event for record in answer["events"] if (event := of_record(record)) is not None]
    score = Score(
        value=float(answer["score"]),
        counts=answer["counts"],
        reference=answer["reference"],
    )
    actions = [event for event in events if event.event in _ACTIONS]
    return {
        "score": score.value,
        "rating": score.rating.value,
        "counted": counted(score),
        "kill_switches": sorted(switches_on(events)),
        "open": [_as_json(event) for event in still_open(events)],
        "last": [_as_json(event) for event in actions[-_LAST:]],
    }


def still_open(events: Iterable[Event]) -> list[Event]:
    """The findings that opened and have not closed. Pure."""
    found: dict[tuple[object, ...], Event] = {}
    for event in events:
        key = (event.code, event.gpu_uuid, str(event.facts.get("subject")))
        if event.event == OPENED:
            found[key] = event
        elif event.event == CLOSED:
            found.pop(key, None)
    return list(found.values())


def _as_json(event: Event) -> dict[str, Any]:
    return {"t": event.t, "event": event.event.replace("_", " "), "text": sentence(event)}

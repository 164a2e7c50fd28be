"""The last restart of a workload, as its annotation has it. Pure.

The annotation is written before the first pod is evicted, so a bridge that is killed in between, or a second
one, continues this restart and does not begin another. The workload's owner can write it too: it decides
about the pods of this workload only.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, NamedTuple

from k8s_bridge.names import FIELD_MANAGER

UID_CHARS = 13
"""So much of a pod's UID is kept: enough to tell the pods of one workload apart."""
MOST_PODS = 15_000
"""An annotation holds 256 KiB."""
MOST_PAST = 50


class Past(NamedTuple):
    """An earlier restart: epoch seconds, and the key of its incident."""

    at: float
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRecord:
    """``at``: epoch seconds. ``incident``: the cause in words; ``key``: equal for the same incident.
    ``pods``: the UIDs (shortened) of the pods that were there, which this restart replaces. ``past``: this
    restart and those before it, oldest first.
    """

    at: float
    incident: str
    key: str
    pods: frozenset[str] = frozenset()
    past: tuple[Past, ...] = ()

    def dump(self) -> str:
        """The annotation's value."""
        values = {
            "by": FIELD_MANAGER,
            "at": datetime.fromtimestamp(self.at, timezone.utc).isoformat(timespec="milliseconds"),
            "incident": self.incident,
            "key": self.key,
            "pods": sorted(self.pods)[:MOST_PODS],
            "past": [list(each) for each in self.past[-MOST_PAST:]],
        }
        return json.dumps(values, separators=(",", ":"))

    @classmethod
    def load(cls, text: str) -> RestartRecord | None:
        """The record, or ``None`` if it is invalid."""
        try:
            values: dict[str, Any] = json.loads(text)
            past = [Past(_time(at), str(key)) for at, key in values["past"][-MOST_PAST:]]
            return cls(
                at=datetime.fromisoformat(values["at"]).timestamp(),
                incident=str(values["incident"]),
                key=str(values["key"]),
                pods=frozenset(map(str, values["pods"][:MOST_PODS])),
                past=tuple(past),
            )
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return None


def _time(value: Any) -> float:
    time = float(value)
    if not math.isfinite(time):
        raise ValueError(f"no time: {value}")
    return time


def short(uid: str) -> str:
    """A pod's UID as in ``RestartRecord.pods``."""
    return uid[:UID_CHARS]

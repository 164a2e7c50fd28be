"""One line of a node's history.

``{"t": 1763701445.123, "event": "drained", "node": "worker-3", "boot_id": "…", "gpu": 3, "gpu_uuid":
"GPU-…", "serial": "…", "code": "XID79", "detail": "…", …}``: empty fields are left
out; fields that this version of Holdfast does not know are kept and shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

BOOT, AGENT_STARTED, AGENT_ENDED = "boot", "agent_started", "agent_ended"
STATE_LOST = "state_lost"
"""The agent's tracked state could not be read: whether the node booted meanwhile is unknown."""
INVENTORY, GPU_REPLACED, MACHINE_REPLACED = "inventory", "gpu_replaced", "machine_replaced"
OPENED, CLOSED = "finding_opened", "finding_closed"
DRAINED, RETURNED, WITHDRAWN, OVER_BUDGET = (
    "drained",
    "returned_to_service",
    "withdrawn",
    "over_budget",
)
RESUMED = "resumed"
"""Somebody else returned a node to service that Holdfast had drained."""
JOB_AFFECTED = "job_affected"
"""``job`` ran here and was affected by a fault of this node."""
ACTIVE_CHECK = "active_check"
"""An active check ran: ``check`` and ``verdict`` (passed, failed, error)."""
KILL_SWITCHES = "kill_switches"
"""The kill switches of the node changed; ``on`` has those that are on now. ``agent_started`` has ``on``
too, if there are any."""
LOST = "events_lost"
"""``count`` events were dropped before they could be written."""

_LATEST_S = 1e11
"""Epoch seconds. Users may be able to write to the folder: a number of JSON may be too large for a float."""
_TEXTS = ("node", "boot_id", "gpu_uuid", "serial", "code", "detail")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """``t`` in epoch seconds; ``gpu`` is the GPU's index on that node at that time.

    ``gpu_uuid`` and ``serial`` (of the board) identify a GPU that moves to another node. ``facts``
    holds all other fields of the line.
    """

    t: float
    event: str
    node: str = ""
    boot_id: str = ""
    gpu: int | None = None
    gpu_uuid: str = ""
    serial: str = ""
    code: str = ""
    detail: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """The event as it is written, without empty fields."""
        fields: dict[str, Any] = {"t": round(self.t, 6), "event": self.event}
        fields |= {name: getattr(self, name) for name in _TEXTS if getattr(self, name)}
        if self.gpu is not None:
            fields["gpu"] = self.gpu
        more = {name: value for name, value in self.facts.items() if name not in fields}
        return {**fields, **more}


def of_record(record: Mapping[str, Any]) -> Event | None:
    """The event of a line, or None where it is not an event (no time, no name)."""
    t, name = record.get("t"), record.get("event")
    if isinstance(t, bool) or not isinstance(t, (int, float)) or not abs(t) < _LATEST_S:
        return None
    if not isinstance(name, str) or not name:
        return None
    gpu = record.get("gpu")
    texts = {key: str(record[key]) for key in _TEXTS if record.get(key) is not None}
    known = {"t", "event", "gpu", *_TEXTS}
    return Event(
        t=float(t),
        event=name,
        gpu=gpu if isinstance(gpu, int) and not isinstance(gpu, bool) else None,
        facts={key: value for key, value in record.items() if key not in known},
        **texts,
    )

"""One line of a node's history.

``{"t": 1763701445.123, "event": "drained", "node": "worker-3", "boot_id": "…", "gpu": 3, "gpu_uuid":
"GPU-…", "serial": "…", "code": "XID79", "detail": "…", …}``: what an event does not have, it leaves
out; what this version of Holdfast does not know is kept and shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

BOOT, AGENT_STARTED, AGENT_ENDED = "boot", "agent_started", "agent_ended"
MEMORY_LOST = "memory_lost"
"""What an agent knew of this node could not be read: whether it booted meanwhile is not known."""
INVENTORY, GPU_REPLACED, MACHINE_REPLACED = "inventory", "gpu_replaced", "machine_replaced"
OPENED, CLOSED = "finding_opened", "finding_closed"
DRAINED, GIVEN_BACK, WITHDRAWN, OVER_BUDGET = "drained", "given_back", "withdrawn", "over_budget"
RESUMED = "resumed"
"""Somebody else put a node back into service that Holdfast had drained."""
JOB_HIT = "job_hit"
"""While ``job`` ran here, a fault of this node befell it."""
ACTIVE_CHECK = "active_check"
"""A diagnosis ran: ``check`` and ``verdict`` (passed, failed, could-not-run)."""
LOST = "events_lost"
"""``count`` events could not be kept until they were written."""

_TEXTS = ("node", "boot_id", "gpu_uuid", "serial", "code", "detail")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """``t`` in epoch seconds; ``gpu`` is the GPU's index on that node at that time.

    ``gpu_uuid`` and ``serial`` (of the board) are what a GPU keeps when it moves. ``facts`` holds all
    else that the line says.
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
        """The event as its line has it, without what is empty."""
        said: dict[str, Any] = {"t": round(self.t, 6), "event": self.event}
        said |= {name: getattr(self, name) for name in _TEXTS if getattr(self, name)}
        if self.gpu is not None:
            said["gpu"] = self.gpu
        return {**said, **{name: value for name, value in self.facts.items() if name not in said}}


def of_record(record: Mapping[str, Any]) -> Event | None:
    """The event of a line, or None where it is none of ours (no time, no name)."""
    t, name = record.get("t"), record.get("event")
    if isinstance(t, bool) or not isinstance(t, (int, float)) or not math.isfinite(t):
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

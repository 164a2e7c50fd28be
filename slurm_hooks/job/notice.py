"""A notice: what the launcher tells the node's agent about its job, for the job's owner and the site.

It comes through the same socket as a marker (``marker``) and is as untrusted: the agent takes it only for
a job that the sender has on this node, and passes on nothing but what is checked here.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass

from holdfast.text import printable
from slurm_hooks.job.marker import count
from slurm_hooks.settings.notify import JobEvent

MAX_BYTES = 4096
_MAX_WHY = 500
_MAX_LOST_S = 366 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """``why``: the decision's reason, one line. ``lost_s``: work lost since the last checkpoint; ``gpus``:
    of all nodes, 0 if not known. ``owner``: the sender's uid as the kernel reports it; -1 in a packet.
    """

    event: JobEvent
    job: int
    attempt: int
    why: str
    lost_s: float = 0.0
    gpus: int = 0
    owner: int = -1

    @property
    def lost_gpu_hours(self) -> float:
        """An estimate: all GPUs of the job for that time."""
        return self.gpus * self.lost_s / 3600


def encoded(notice: Notice) -> bytes:
    """One packet."""
    facts = {**asdict(notice), "event": notice.event.value, "why": notice.why[:_MAX_WHY]}
    return json.dumps({"notice": facts}, ensure_ascii=False).encode(errors="replace")


def decoded(data: bytes) -> Notice | None:
    """The notice in a packet; None for a packet of another kind. Raises ValueError for a notice that is
    not valid."""
    if len(data) > MAX_BYTES:
        return None
    try:
        outer = json.loads(data.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(outer, dict) or "notice" not in outer:
        return None
    facts = outer["notice"]
    if not isinstance(facts, dict):
        raise ValueError("the notice is not a JSON object")
    why = facts.get("why")
    if not isinstance(why, str):
        raise ValueError("why is not text")
    return Notice(
        event=_event(facts.get("event")),
        job=count(facts, "job"),
        attempt=count(facts, "attempt"),
        why=printable.line(why)[:_MAX_WHY],
        lost_s=_seconds(facts.get("lost_s")),
        gpus=count(facts, "gpus"),
    )


def _event(value: object) -> JobEvent:
    try:
        return JobEvent(value)
    except ValueError:
        raise ValueError("unknown event") from None


def _seconds(value: object) -> float:
    """An integer of JSON may be too large for a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("lost_s is not a time")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("lost_s is not a time")
    return float(min(_MAX_LOST_S, max(0, value)))

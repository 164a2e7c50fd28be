"""Mount points that jobs need."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class MountState(str, Enum):
    OK = "ok"
    GONE = "gone"
    HUNG = "hung"
    FULL = "full"
    READ_ONLY = "read-only"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class MountFacts:
    """One mount point: the result of writing, reading and removing a small file there, and its
    duration. ``fs_type``, ``source``: as in /proc/self/mounts.
    """

    path: str
    state: MountState
    detail: str = ""
    latency_s: float | None = None
    free_bytes: int | None = None
    total_bytes: int | None = None
    free_inodes: int | None = None
    inodes: int | None = None
    fs_type: str = ""
    source: str = ""

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
    """One mount point: what a tiny write, read back and remove did there, and how long it took.

    ``fs_type``, ``source``: what is mounted there, as /proc/self/mounts has it.
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

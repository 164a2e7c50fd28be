"""Several ``holdfast run`` in one batch script: after a requeue Slurm starts the script from its top,
and what has finished is not run again. Pure.

A run is known by its command and by how many equal ones came before it in the script. Addresses and nodes
of the allocation differ from one run of the job to the next, so they are left out of the comparison.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence

from holdfast.records.job_journal import Event, attempts, last

_ADDRESS = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def key_of(command: Sequence[str], nodes: Collection[str]) -> str:
    """Equal for the same command in every run of the job. ``nodes``: those of this run."""
    names = set(nodes)

    def without_node(match: re.Match[str]) -> str:
        return "NODE" if match[0] in names or match[0].partition(".")[0] in names else match[0]

    words = (_ADDRESS.sub("NODE", _NAME.sub(without_node, word)) for word in command)
    return hashlib.sha256("\0".join(words).encode(errors="surrogateescape")).hexdigest()[:16]


def occurrence(events: Iterable[Event], key: str, restarts: int) -> int:
    """How many equal commands this run of the job has begun or skipped already."""
    found = (
        event.get("run")
        for event in events
        if event.get("key") == key and event.get("restarts") == restarts
    )
    return 1 + max((run for run in found if isinstance(run, int)), default=-1)


def finished(events: Iterable[Event], key: str, restarts: int) -> int:
    """How many equal commands have succeeded in earlier runs of the job."""
    groups = (group for group in attempts(events) if group[0].get("key") == key)
    return sum(_succeeded(group, restarts) for group in groups)


def _succeeded(group: Sequence[Event], restarts: int) -> bool:
    began = group[0].get("restarts")
    earlier = isinstance(began, int) and began < restarts
    return earlier and (last(group, "finish") or {}).get("succeeded") is True

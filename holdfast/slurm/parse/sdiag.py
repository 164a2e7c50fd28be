"""slurmctld's clock and its count of requests, in the output of ``sdiag``."""

from __future__ import annotations

import re
from datetime import datetime
from typing import NamedTuple

from holdfast.slurm.parse.values import ParseError, epoch


class NodeChanges(NamedTuple):
    """How many requests to change a node slurmctld has counted, at a time of its clock. The count starts
    again at midnight (UTC) and with each restart."""

    at: datetime
    counted_since: int
    changes: int


_COUNTED_SINCE = re.compile(r"^Data since\s.*\((\d+)\)", re.MULTILINE)
_CHANGES = re.compile(r"^\s*REQUEST_UPDATE_NODE\s+\(\s*\d+\)\s+count:(\d+)", re.MULTILINE)


def node_changes(text: str) -> NodeChanges:
    """From ``sdiag``: the requests to change a node, from any user and for any node."""
    since, changes = _COUNTED_SINCE.search(text), _CHANGES.search(text)
    if since is None:
        raise ParseError(f'no "Data since" in the output of sdiag: {text[:80]!r}')
    return NodeChanges(clock(text), int(since[1]), int(changes[1]) if changes else 0)


_CLOCK = re.compile(r"^sdiag output at .*\((\d{9,12})\)", re.MULTILINE)


def clock(text: str) -> datetime:
    """slurmctld's time from the head of ``sdiag``."""
    match = _CLOCK.search(text)
    at = epoch(match[1]) if match else None
    if at is None:
        raise ParseError(f"no time in the output of sdiag: {text[:80]!r}")
    return at

"""Nodes in the text of ``scontrol``, one line each, and the start of slurmctld."""

from __future__ import annotations

import functools
import re
from datetime import datetime
from typing import NamedTuple

from holdfast.slurm.client import SlurmNode
from holdfast.slurm.parse.values import ParseError, epoch, states_in
from holdfast.vocabulary import SlurmName

# One record of `scontrol show nodes -o`, fixed part first. OS= may have blanks, never " State=".
_HEAD = re.compile(
    r"NodeName=(?P<name>\S+) .*?(?: NodeAddr=(?P<address>\S+) .*?)?"
    r" State=(?P<state>\S+) .*?(?: Partitions=(?P<partitions>\S+) .*?)?"
    r" BootTime=(?P<boot>\S+)"
    r"(?: SlurmdStartTime=(?P<slurmd>\S+))? .*? AveWatts=\S+(?P<tail>.*)"
)
_TAIL_KEYS = ("Reason", "Comment", "Extra", "InstanceId", "InstanceType")
_TAIL = re.compile(
    r"(?: Reason=(?P<Reason>.*) \[(?P<user>\S+)@(?P<at>\w+)\])?"
    r"(?: Comment=(?P<Comment>.*?))?"
    r"(?: Extra=(?P<Extra>.*?))?"
    r"(?: InstanceId=(?P<InstanceId>\S+))?"
    r"(?: InstanceType=(?P<InstanceType>\S+))?"
)
_TAIL_KEY = re.compile(rf" ({'|'.join(_TAIL_KEYS)})=")
_STAMP = re.compile(r" \[\S+@\w+\]")


class NodesText(NamedTuple):
    """Nodes read from text; those in ``ambiguous`` have to be queried again as JSON."""

    nodes: list[SlurmNode]
    ambiguous: list[SlurmName]


def nodes_text(text: str) -> NodesText:
    """``scontrol show nodes -o`` under ``SLURM_TIME_FORMAT=%s``.

    Raises ``ParseError`` when the output as a whole is something else. A node is ambiguous when its
    record spans lines, or a free text contains something that looks like a field.
    """
    found: dict[str, SlurmNode] = {}
    ambiguous: set[str] = set()
    last = ""
    for line in text.splitlines():
        match = _HEAD.fullmatch(line) if line.startswith("NodeName=") else None
        if match is None:
            if not line.strip():
                continue
            if not last:
                raise ParseError(f"not a node record: {line[:80]!r}")
            ambiguous.add(last)
            continue
        last = match["name"]
        node = _node_text(match)
        if node is None or last in found or last in ambiguous:
            ambiguous.add(last)
        else:
            found[last] = node
    nodes = [node for name, node in found.items() if name not in ambiguous]
    return NodesText(nodes, sorted(SlurmName(name) for name in ambiguous))


def _node_text(match: re.Match[str]) -> SlurmNode | None:
    tail = " " + match["tail"].strip() if match["tail"].strip() else ""
    keys = [key[1] for key in _TAIL_KEY.finditer(tail)]
    parts = _TAIL.fullmatch(tail)
    stamps = len(_STAMP.findall(tail))
    if parts is None or len(keys) != len(set(keys)) or stamps != ("Reason" in keys):
        return None
    known, unknown = states_in(match["state"])
    return SlurmNode(
        name=SlurmName(match["name"]),
        address=match["address"] or "",
        states=known,
        unknown_states=unknown,
        reason=parts["Reason"] or "",
        reason_user=parts["user"] or "",
        reason_at=_epoch(parts["at"]),
        comment=parts["Comment"] or "",
        instance_id=parts["InstanceId"] or "",
        boot_at=_epoch(match["boot"]),
        slurmd_started_at=_epoch(match["slurmd"]),
        partitions=tuple(match["partitions"].split(",")) if match["partitions"] else (),
    )


@functools.lru_cache(maxsize=4096)
def _epoch(text: str | None) -> datetime | None:
    return epoch(text)


_BOOT_TIME = re.compile(r"^BOOT_TIME\s*= (\d{9,12})$", re.MULTILINE)
_SPOOL = re.compile(r"^SlurmdSpoolDir\s*= (/\S.*?)\s*$", re.MULTILINE)


def spool_folder(text: str) -> str:
    """SlurmdSpoolDir from ``scontrol show config``, with its patterns ``%n`` and ``%h``."""
    match = _SPOOL.search(text)
    if match is None:
        raise ParseError("no SlurmdSpoolDir in the output of scontrol show config")
    return match[1]


def slurmctld_at(text: str) -> datetime:
    """slurmctld's start time from ``scontrol show config``: BOOT_TIME, which is not the machine's."""
    match = _BOOT_TIME.search(text)
    at = epoch(match[1]) if match else None
    if at is None:
        raise ParseError("no BOOT_TIME in the output of scontrol show config")
    return at

"""The cluster's topology: which nodes share a leaf switch or a block. Pure.

From ``scontrol show topology`` (topology/tree and topology/block; seen on 24.11.5 and 26.05.5).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.slurm.hostlist import expand

_PAIR = re.compile(r"(\w+)=(\S*)")


def argv() -> list[str]:
    return ["scontrol", "show", "topology"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Nodes that fail together: those of a leaf switch or of a block. ``above``: the switch above it."""

    name: str
    nodes: tuple[str, ...]
    above: str = ""


def groups(text: str) -> list[Group]:
    """The leaf switches or blocks, in Slurm's order; none where Slurm has no topology."""
    rows: list[dict[str, str]] = [dict(_PAIR.findall(line)) for line in text.splitlines()]
    above: dict[str, str] = {}
    for row in rows:
        if row.get("Switches") and row.get("Level") == "1":
            for leaf in _expanded(row["Switches"]):
                above[leaf] = row.get("SwitchName", "")
    found = []
    for row in rows:
        switch = row.get("SwitchName", "") if row.get("Level") == "0" else ""
        group = switch or row.get("BlockName", "")
        nodes = tuple(_expanded(row.get("Nodes", "")))
        if group and nodes:
            found.append(Group(name=group, nodes=nodes, above=above.get(group, "")))
    return found


def _expanded(text: str) -> Iterable[str]:
    try:
        return expand(text) if text not in ("", "(null)") else ()
    except ValueError:
        return ()

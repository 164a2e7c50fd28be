"""Nodes in the output of ``sinfo``, in groups that share a state, reason and comment."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from holdfast.slurm.client import SlurmNode
from holdfast.slurm.hostlist import expand
from holdfast.slurm.parse.values import FIELD, RECORD, ParseError, epoch, states_in
from holdfast.vocabulary import SlurmName


class GroupedNodes:
    """The output of ``sinfo``, again and again: state, reason, user, time, comment and hostlist of each group
    of nodes. A group that is in the previous output too is not parsed again: its nodes are the same objects,
    and so is the list if the output is the same.
    """

    def __init__(self) -> None:
        self._text = ""
        self._groups: dict[str, list[SlurmNode]] = {}
        self._nodes: list[SlurmNode] = []

    def read(self, text: str) -> list[SlurmNode]:
        """All nodes. Raises ``ParseError`` when a record does not have exactly these six fields or a node is
        listed twice."""
        if text == self._text and self._nodes:
            return self._nodes
        old = {node.name: node for node in self._nodes}
        groups: dict[str, list[SlurmNode]] = {}
        names: set[str] = set()
        nodes: list[SlurmNode] = []
        for record in text.split(f"{RECORD}\n"):
            if not record:
                continue
            group = self._groups.get(record)
            if group is None:
                group = [_known(node, old) for node in _group(record)]
            groups[record] = group
            nodes += group
            names.update(node.name for node in group)
            if len(names) != len(nodes):
                raise ParseError(f"a node twice in the output of sinfo: {record[:80]!r}")
        self._text, self._groups, self._nodes = text, groups, nodes
        return nodes


def one(text: str) -> SlurmNode | None:
    """The node of ``commands.show_one``; ``None``: there is none, or a text contains the separators."""
    records = [record for record in text.split(f"{RECORD}\n") if record]
    fields = records[0].split(FIELD) if len(records) == 1 else []
    if len(fields) != 7:
        return None
    *common, reservation, name = fields
    try:
        (node,) = _group(FIELD.join((*common, name)))
    except ValueError:
        return None
    return dataclasses.replace(node, reservation=reservation)


def _known(node: SlurmNode, old: Mapping[SlurmName, SlurmNode]) -> SlurmNode:
    before = old.get(node.name)
    return before if before is not None and before == node else node


def _group(record: str) -> list[SlurmNode]:
    fields = record.split(FIELD)
    if len(fields) != 6 or RECORD in record:
        raise ParseError(f"expected 6 fields of sinfo, got {len(fields)}: {record[:80]!r}")
    state, reason, user, at, comment, hosts = fields
    known, unknown = states_in(state)
    # Without a time, sinfo prints "none" for no reason; with a time, somebody typed it.
    when = epoch(at)
    return [
        SlurmNode(
            name=SlurmName(name),
            states=known,
            unknown_states=unknown,
            reason="" if when is None and reason == "none" else reason,
            reason_user="" if when is None else user,
            reason_at=when,
            comment="" if comment == "(null)" else comment,
        )
        for name in expand(hosts)
    ]

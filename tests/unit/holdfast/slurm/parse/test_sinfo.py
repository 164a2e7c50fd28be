"""The grouped output of sinfo, read again and again."""

from __future__ import annotations

import pytest

from holdfast.slurm.parse.sinfo import GroupedNodes, one
from holdfast.slurm.parse.values import FIELD, RECORD, ParseError
from holdfast.vocabulary import SlurmName


def record(state: str, reason: str, hosts: str) -> str:
    at = "1763640000" if reason != "none" else "Unknown"
    fields = (state, reason, "root", at, "(null)", hosts)
    return FIELD.join(fields) + RECORD + "\n"


IDLE = record("IDLE", "none", "w-[0-7]")


def test_an_equal_output_is_the_same_list() -> None:
    reader = GroupedNodes()
    first = reader.read(IDLE)
    assert len(first) == 8
    assert reader.read(IDLE) is first


def test_only_the_node_that_changed_is_a_new_object() -> None:
    reader = GroupedNodes()
    before = {node.name: node for node in reader.read(IDLE)}
    text = record("IDLE", "none", "w-[0-2,4-7]") + record("IDLE+DRAIN", "holdfast:XID79: x", "w-3")
    after = {node.name: node for node in reader.read(text)}
    assert after.keys() == before.keys()
    assert [name for name, node in after.items() if node is not before[name]] == ["w-3"]
    assert after[SlurmName("w-3")].drained_flag
    assert reader.read(IDLE) == list(before.values())


def test_a_node_twice_is_an_error_also_in_a_group_that_is_known() -> None:
    reader = GroupedNodes()
    reader.read(IDLE)
    with pytest.raises(ParseError, match="twice"):
        reader.read(IDLE + record("DOWN", "Not responding", "w-3"))
    assert len(reader.read(IDLE)) == 8


def row(reason: str = "holdfast:XID79: x", comment: str = "(null)", name: str = "w-3") -> str:
    fields = ("MIXED+DRAIN", reason, "root", "1763640000", comment, "hf-test", name)
    return FIELD.join(fields) + RECORD + "\n"


def test_one_node_has_its_reservation_too() -> None:
    node = one(row(comment="ask Bob"))
    assert node is not None
    assert (node.name, node.reservation, node.comment) == ("w-3", "hf-test", "ask Bob")
    assert (node.drained_flag, node.reason, node.reason_user) == (True, "holdfast:XID79: x", "root")


@pytest.mark.parametrize(
    "text",
    ["", row() + row(name="w-4"), row(comment=f"a{FIELD}b"), row(name="w-[3-4]"), "no such node"],
)
def test_what_is_not_exactly_one_node_is_none(text: str) -> None:
    assert one(text) is None

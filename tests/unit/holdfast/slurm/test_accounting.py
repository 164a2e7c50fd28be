"""Which drain an undrain ended, from accounting, as ``sacctmgr`` of 24.11.5 and 26.05.5 printed it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from holdfast.policy.ownership import PastDrain, Undrained, overtaken
from holdfast.reason import Reason
from holdfast.slurm.accounting import argv, past_drains, restarts
from holdfast.vocabulary import SlurmName

OURS = "holdfast:XID79: GPU 3 0000:86:00 Xid 79 boot=aaaaaaaa gpu=3"
SHOWN = f"""\
1795267430|1795267430|UNK|root(0)|node-update
1795267433|1795267436|DRAIN|root(0)|{OURS}
1795267436|1795267437|DRAIN|alice(1000)|ticket 9 | Anna
1|knows|more
1795267450|Unknown|DOWN*+DRAIN|root(0)|{OURS} : Not responding
"""


def at(second: int) -> datetime:
    return datetime.fromtimestamp(1795267400 + second, timezone.utc)


def drain(start: int, end: int | None, reason: str = OURS) -> PastDrain:
    end_at = None if end is None else at(end)
    return PastDrain(start_at=at(start), end_at=end_at, user="root(0)", reason=reason)


def test_rows_with_bars_and_line_breaks_in_their_reasons() -> None:
    ours, human, down = past_drains(SHOWN)
    assert ours == replace(drain(33, 36), replaced=True)
    assert (human.user, human.start_at, human.end_at) == ("alice(1000)", at(36), at(37))
    assert human.reason == "ticket 9 | Anna\n1|knows|more"
    assert down == drain(50, None, f"{OURS} : Not responding")


def test_slurmdbds_own_events_are_no_drains() -> None:
    """Seen on 26.05.5 after a node's boot, with the state of the drain at that time."""
    assert list(past_drains("1795267430|1795267436|IDLE+DRAIN|root(0)|node-update\n")) == []


def test_without_events_nothing_is_known() -> None:
    assert list(past_drains("")) == []


def test_the_question_names_one_node_and_a_time_without_zone() -> None:
    words = argv(SlurmName("worker-1"), at(33))
    assert "nodes=worker-1" in words
    assert "start=uts1795267433" in words


UNDRAINED = Undrained(reason=OURS, since=at(33), looked_at=at(58), until=at(60))
AT_ONCE = replace(UNDRAINED, looked_at=at(32), until=at(34))


@pytest.mark.parametrize(
    "past",
    [
        [drain(33, 60)],
        [drain(10, 20, "ticket 7"), drain(33, 60)],
        [drain(33, 50), drain(50, 59, f"{OURS} : Not responding")],
        # a reason of Slurm's or of anyone that was there when the node was read
        [drain(33, 40), drain(40, 60, "power saving")],
        # a person drained it after the undrain in that second, and resumed it later
        [drain(33, 60), drain(60, 65, "ticket 9")],
    ],
    ids=[
        "ours",
        "an older one",
        "with Slurm's words",
        "before the look",
        "drained and resumed later",
    ],
)
def test_our_own_drain_was_meant(past: list[PastDrain]) -> None:
    assert overtaken(past, UNDRAINED) is None


@pytest.mark.parametrize(
    "past",
    [
        [drain(33, 60), drain(60, 60, "ticket 9")],
        [drain(33, 58), drain(58, 60, "ticket 9")],
        [drain(60, 60, "ticket 9"), drain(33, 60)],
    ],
    ids=["in one second", "just before", "in any order"],
)
def test_a_drain_of_somebody_else_was_ended(past: list[PastDrain]) -> None:
    found = overtaken(past, UNDRAINED)
    assert found is not None
    assert found.reason == "ticket 9"


LONG = str(Reason("MOUNT_HUNG", "no answer in time; " + "stack " * 60, {"boot": "aaaaaaaa"}))


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        (LONG, LONG[:255]),
        (LONG[:-9], f"{LONG[:-9]} : Not responding"[:255]),
        (OURS, "holdfast:ROW_REMAP_FAILED: GPU 3: no spare rows boot=aaaaaaaa gpu=3"),
    ],
    ids=["cut by slurmdbd", "cut within Slurm's words", "an earlier drain by the same agent"],
)
def test_accountings_text_of_the_agents_own_drain_may_differ(reason: str, kept: str) -> None:
    at_once = replace(AT_ONCE, reason=reason)
    assert overtaken([drain(33, 33, kept)], at_once) is None


@pytest.mark.parametrize(
    "kept",
    [
        "holdfast:KUBE_CORDON: kubectl cordon by anna boot=aaaaaaaa",
        "holdfast:XID79: GPU 3 of another boot boot=bbbbbbbb gpu=3",
        f"{OURS}; RMA 77",
    ],
    ids=["the bridge", "another boot", "a person's addition"],
)
def test_somebody_elses_drain_may_look_like_the_agents(kept: str) -> None:
    assert overtaken([drain(33, 33, kept)], AT_ONCE) is not None


def test_a_withdrawal_in_the_second_of_its_drain_met_somebody_elses() -> None:
    """Then accounting has the later one in place of ours."""
    found = overtaken([drain(33, 33, "ticket 9")], AT_ONCE)
    assert found is not None
    assert found.reason == "ticket 9"


@pytest.mark.parametrize(
    "past", [[], [drain(10, 20)], [drain(33, None)], [drain(70, 80)]],
    ids=["nothing", "only before", "not ended yet", "only after"],
)  # fmt: skip
def test_accounting_that_is_behind_is_asked_again(past: list[PastDrain]) -> None:
    with pytest.raises(LookupError):
        overtaken(past, UNDRAINED)


def test_a_node_that_has_passed_an_inspection_is_no_incident_of_a_job() -> None:
    passed = "holdfast: XID79 node=n3 run=0 at=150; NODE_TESTED node=n3 run=0 at=250"
    row = "\x1f".join(("7", "100", "200", passed))
    assert restarts(row + "\n")["7"].code == "XID79"

"""Rule 3: each detail on which it depends whether a drain is Holdfast's own, and who ended it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from holdfast.policy.ownership import (
    ACCOUNTED_CHARS,
    DrainRecord,
    PastDrain,
    Undrained,
    ended_before,
    is_own_drain,
    overtaken,
    same_slurmctld,
    to_ask_about,
)
from holdfast.reason import Reason
from tests.unit.holdfast.policy.node_examples import IDLE, NOON, OUR_TEXT, drained, record

DRAINED = record()
UNREAD = replace(DRAINED, at=None)
APPENDED = f"{OUR_TEXT} : Not responding"


def at(second: float) -> datetime:
    return NOON + timedelta(seconds=second)


# --- the drain that the node has now


@pytest.mark.parametrize(("second", "own"), [(-1, False), (0, True), (1, False)])
def test_a_drain_is_holdfasts_own_only_at_the_recorded_time(second: int, own: bool) -> None:
    assert is_own_drain(DRAINED, drained(at=at(second))) is own


@pytest.mark.parametrize("reason", ["", "a text that sorts before", "zzz", OUR_TEXT[:-1]])
def test_a_drain_with_another_text_is_not_holdfasts_own(reason: str) -> None:
    assert not is_own_drain(DRAINED, drained(reason))
    assert not is_own_drain(UNREAD, drained(reason))


@pytest.mark.parametrize("user", ["ada", "zoe", ""])
def test_a_drain_by_another_user_is_not_holdfasts_own(user: str) -> None:
    assert not is_own_drain(DRAINED, drained(user=user))
    assert not is_own_drain(UNREAD, drained(user=user))


def test_a_node_in_service_shows_no_drain_of_holdfast() -> None:
    """Slurm may show the reason of a drain that has ended."""
    assert not is_own_drain(DRAINED, replace(drained(), states=IDLE.states))
    assert not is_own_drain(None, drained())
    assert not is_own_drain(DRAINED, replace(drained(), reason_at=None))
    assert not is_own_drain(UNREAD, replace(drained(), reason_at=None))


@pytest.mark.parametrize(("second", "own"), [(-1, False), (0, True), (1, True), (3600, True)])
def test_slurmctld_appends_its_words_after_the_recorded_drain(second: int, own: bool) -> None:
    """With an earlier time it was an earlier drain with the same text."""
    assert is_own_drain(DRAINED, drained(APPENDED, user="slurm", at=at(second))) is own


def test_slurmctlds_words_prove_a_drain_that_was_not_read_back() -> None:
    assert is_own_drain(UNREAD, drained(APPENDED, user="slurm", at=at(-1)))


@pytest.mark.parametrize(
    ("second", "own"), [(-301, False), (-300, True), (0, True), (300, True), (301, False)]
)
def test_two_clocks_may_differ_by_five_minutes_for_a_drain_that_was_not_read_back(
    second: int, own: bool
) -> None:
    assert is_own_drain(UNREAD, drained(at=at(second))) is own


# --- a drain that is gone


@pytest.mark.parametrize(("second", "same"), [(-1, False), (0, True), (1, False)])
@pytest.mark.parametrize("drained_at", [None, at(-100), at(100)])
def test_slurmctld_is_the_same_only_with_the_recorded_start(
    second: int, same: bool, drained_at: datetime | None
) -> None:
    known = replace(DRAINED, slurmctld_at=NOON, at=drained_at)
    assert same_slurmctld(known, at(second)) is same


@pytest.mark.parametrize(("second", "same"), [(-1, True), (0, False), (1, False)])
def test_without_a_recorded_start_slurmctld_must_have_started_before_the_drain(
    second: int, same: bool
) -> None:
    assert same_slurmctld(DRAINED, at(second)) is same
    assert not same_slurmctld(UNREAD, at(second))


def past(start: float, end: float | None, *, replaced: bool = False) -> PastDrain:
    end_at = None if end is None else at(end)
    return PastDrain(
        start_at=at(start), end_at=end_at, user="root(0)", reason=OUR_TEXT, replaced=replaced
    )


RESTART = at(60)
"""slurmctld restarts a minute after the drain."""


@pytest.mark.parametrize(
    ("rows", "ended"),
    [
        ([past(0, 59)], True),
        ([past(0, 60)], False),
        ([past(0, 61)], False),
        ([past(0, None)], False),
        ([past(0, 59, replaced=True)], False),
        ([], False),
        # accounting has whole seconds
        ([past(-1, 59)], True),
        ([past(-2, 59)], False),
        ([past(-100, -50), past(0, None)], False),
        # the last drain decides, in any order
        ([past(0, 10), past(20, None)], False),
        ([past(20, None), past(0, 10)], False),
        ([past(0, 10, replaced=True), past(10, 30)], True),
        ([past(10, 30), past(0, 10, replaced=True)], True),
    ],
    ids=[
        "before the restart",
        "at the restart",
        "after it",
        "never",
        "by another event",
        "no rows",
        "a second early",
        "an earlier drain",
        "only the earlier one ended",
        "drained again",
        "drained again, listed first",
        "replaced, then ended",
        "replaced, then ended, listed first",
    ],
)
def test_accounting_proves_a_return_only_by_an_end_before_slurmctld_restarted(
    rows: list[PastDrain], ended: bool
) -> None:
    assert ended_before(rows, DRAINED, RESTART) is ended


def test_a_persons_drain_that_slurmctld_lost_does_not_hide_his_resume_before_it() -> None:
    lost = replace(past(20, None), user="alice(2001)", reason="swapping DIMM")
    assert ended_before([past(0, 10), lost], DRAINED, RESTART)
    assert not ended_before([past(0, 10, replaced=True), lost], DRAINED, RESTART)


@pytest.mark.parametrize("second", [60, 61])
def test_a_persons_drain_since_the_restart_does_not_hide_his_resume_before_it(second: int) -> None:
    later = replace(past(second, 70), user="alice(2001)", reason="swapping DIMM")
    assert ended_before([past(0, 10), later], DRAINED, RESTART)
    assert not ended_before([past(0, None), later], DRAINED, RESTART)


@pytest.mark.parametrize(
    ("before", "new", "asked"),
    [
        (1, 1, "new"),
        (1, 2, "new"),
        (2, 1, "before"),
        (2, None, "before"),
        (2, 2, "new"),
        (None, 1, "before"),
        (None, 2, "new"),
    ],
)
def test_the_return_that_may_have_ended_another_drain_is_asked_about(
    before: int | None, new: int | None, asked: str
) -> None:
    """The numbers are the changes of nodes at the moment of each return; None: unknown."""
    earlier = replace(UNDRAINED, reason="before", changes=before)
    later = replace(UNDRAINED, reason="new", changes=new)
    assert to_ask_about(earlier, later).reason == asked
    assert to_ask_about(None, later) is later


def test_accounting_proves_nothing_for_a_drain_that_was_not_read_back() -> None:
    assert not ended_before([past(0, 59)], UNREAD, RESTART)


# --- what an undrain ended

UNDRAINED = Undrained(reason=OUR_TEXT, since=at(0), looked_at=at(50), until=at(60))
TICKET = "ticket 9"


@pytest.mark.parametrize(
    ("changes", "alone"), [(None, False), (0, False), (1, True), (2, False), (3, False)]
)
def test_an_undrain_was_alone_only_if_slurmctld_counted_one_change(
    changes: int | None, alone: bool
) -> None:
    assert replace(UNDRAINED, changes=changes).alone is alone


@pytest.mark.parametrize(
    ("start", "end", "met"),
    [(49, 60, False), (50, 60, True), (51, 60, True), (60, 60, True), (50, 61, False)],
)
def test_another_drain_was_ended_only_between_the_last_read_and_the_undrain(
    start: int, end: int, met: bool
) -> None:
    other = replace(past(start, end), reason=TICKET)
    assert overtaken([past(0, start), other], UNDRAINED) == (other if met else None)


@pytest.mark.parametrize("start", [-1, 61])
def test_drains_outside_the_time_of_the_undrain_answer_nothing(start: int) -> None:
    with pytest.raises(LookupError, match="accounting shows no drain"):
        overtaken([past(start, start + 1)], UNDRAINED)


def test_a_drain_that_has_not_ended_answers_nothing() -> None:
    with pytest.raises(LookupError, match="the drain has not ended"):
        overtaken([past(0, None)], UNDRAINED)


LONG = str(Reason("MOUNT_HUNG", "stack " * 60, {"gpu": "3"}))


@pytest.mark.parametrize(
    ("kept", "own"),
    [
        (LONG[:ACCOUNTED_CHARS], True),
        (LONG[: ACCOUNTED_CHARS - 1], False),
        (f"{LONG[:ACCOUNTED_CHARS]}, cut later", True),
        ("x" * ACCOUNTED_CHARS, False),
    ],
    ids=["cut by slurmdbd", "shorter than slurmdbd cuts", "a longer column", "another long text"],
)
def test_only_a_text_as_long_as_slurmdbds_column_counts_as_cut(kept: str, own: bool) -> None:
    assert ACCOUNTED_CHARS == 255
    undrained = replace(UNDRAINED, reason=LONG, looked_at=at(0))
    found = overtaken([replace(past(0, 0), reason=kept)], undrained)
    assert (found is None) is own


@pytest.mark.parametrize(
    ("own_pairs", "other_pairs", "code", "own"),
    [
        ({"boot": "b"}, {"boot": "b"}, "XID48", True),
        ({"boot": "b"}, {"boot": "b"}, "DISK_FULL", True),
        ({"boot": "b"}, {"boot": "a"}, "XID48", False),
        ({"boot": "b"}, {"boot": "c"}, "XID48", False),
        ({"boot": "b"}, {}, "XID48", False),
        ({}, {"boot": "b"}, "XID48", False),
        ({}, {}, "XID48", False),
        ({"boot": "b"}, {"boot": "b"}, "KUBE_CORDON", False),
    ],
)
def test_an_earlier_drain_of_the_same_agent_names_the_same_boot(
    own_pairs: dict[str, str], other_pairs: dict[str, str], code: str, own: bool
) -> None:
    undrained = replace(UNDRAINED, reason=str(Reason("XID79", "GPU 3", own_pairs)), looked_at=at(0))
    other = replace(past(0, 0), reason=str(Reason(code, "GPU 4", other_pairs)))
    assert (overtaken([other], undrained) is None) is own


def test_a_persons_text_in_the_same_second_is_not_the_agents() -> None:
    undrained = replace(UNDRAINED, reason=TICKET, looked_at=at(0))
    other = replace(past(0, 0), reason=OUR_TEXT)
    assert overtaken([other], undrained) == other


def test_a_record_needs_no_optional_field() -> None:
    plain = DrainRecord(
        reason="r", actor="root", at=None, written_at=NOON, code="XID79",
        action=DRAINED.action, boot_id="b",
    )  # fmt: skip
    assert (plain.instance_id, plain.gpu, plain.slurmctld_at) == ("", None, None)
    assert (plain.returns, plain.by_hand) == (0, False)
    assert not past(0, 1).replaced

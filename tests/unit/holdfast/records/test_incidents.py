"""The line in a job's AdminComment: it is read back, merged, and never overwrites another text."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.records.incidents import (
    MAX_CHARS,
    Attribution,
    Incident,
    journal_in,
    may_write,
    merge,
    parse,
    render,
    verdict,
)

XID13 = Incident(code="XID13", node="worker-1", gpu=3, step="0", pid=4711, count=2, run=1, at=99)
XID79 = Incident(code="XID79", node="worker-0", gpu=5, run=1, at=98)


def test_it_reads_as_a_person_would_write_it() -> None:
    assert render([XID13]) == (
        "holdfast: XID13 node=worker-1 gpu=3 step=0 pid=4711 n=2 run=1 at=99"
    )


patient = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60
)  # no test judges speed

entries = st.builds(
    Incident,
    code=st.sampled_from(["XID13", "XID79", "ECC_UNCORRECTED", "JOB_LEFTOVER", "SXID12028"]),
    node=st.sampled_from(["worker-0", "gpu-node.7", "n_1"]),
    gpu=st.none() | st.integers(0, 15),
    step=st.sampled_from(["", "0", "17"]),
    pid=st.none() | st.integers(1, 1 << 22),
    count=st.integers(1, 10**6),
    at=st.integers(0, 1 << 33),
    run=st.integers(0, 50),
    observe_only=st.booleans(),
)


@patient
@given(st.lists(entries, max_size=4))
def test_what_is_written_reads_back(found: list[Incident]) -> None:
    assert list(parse(render(found))) == found


@patient
@given(st.text(max_size=300))
def test_no_comment_crashes_the_reader(text: str) -> None:
    for entry in parse(text) + parse(f"holdfast: {text}"):
        assert parse(render([entry])) == (entry,)


@patient
@given(st.lists(entries, max_size=40))
def test_a_long_comment_is_cut_after_a_whole_entry(found: list[Incident]) -> None:
    text = render(found)
    assert len(text) <= MAX_CHARS + len("; and 40 more")
    assert list(parse(text)) == found[: len(parse(text))]


@patient
@given(st.lists(entries, max_size=8), st.lists(entries, max_size=8))
def test_merging_keeps_every_entry_and_is_idempotent(
    old: list[Incident], new: list[Incident]
) -> None:
    both = merge(old, new)
    assert {one.key for one in both} == {one.key for one in (*old, *new)}
    assert merge(both, new) == both
    assert merge(both, old) == both


def test_the_later_entry_and_the_larger_count_are_kept() -> None:
    later = Incident(code="XID13", node="worker-1", gpu=3, step="0", pid=9, count=1, run=1, at=120)
    (one,) = merge([XID13], [later])
    assert (one.pid, one.count, one.at) == (9, 2, 120)


def test_the_worst_of_the_newest_run_comes_first() -> None:
    old = Incident(code="XID48", node="worker-0", run=0)
    killed = Incident(code="XID45", node="worker-0", run=1)
    assert merge([old, killed], [XID13, XID79]) == (XID79, XID13, killed, old)


@pytest.mark.parametrize("text", ["", "  ", "holdfast: XID13 node=a", "holdfast: anything"])
def test_only_empty_comments_and_holdfasts_own_are_overwritten(text: str) -> None:
    assert may_write(text)


@pytest.mark.parametrize("text", ["ticket 1234", "see holdfast: XID13", "Holdfast: no"])
def test_other_texts_are_not_parsed(text: str) -> None:
    assert not may_write(text)
    assert parse(text) == ()


@pytest.mark.parametrize(
    ("codes", "blame"),
    [
        ([], Attribution.NONE),
        (["XID45"], Attribution.NONE),
        (["XID63"], Attribution.NONE),
        (["XID13", "XID45"], Attribution.JOB),
        (["XID43"], Attribution.JOB),
        (["XID13", "XID79"], Attribution.NODE),
        (["ECC_UNCORRECTED"], Attribution.NODE),
        (["IB_FLAP", "XID31"], Attribution.NODE),
        (["NEVER_HEARD_OF"], Attribution.NONE),
    ],
)
def test_a_broken_machine_explains_what_the_application_saw(
    codes: list[str], blame: Attribution
) -> None:
    assert verdict([Incident(code=code, node="n") for code in codes]) is blame


@patient
@given(st.lists(entries, max_size=30), st.text(min_size=1, max_size=80))
def test_the_journals_path_reads_back_beside_any_entries(found: list[Incident], name: str) -> None:
    path = "/" + name.replace("\0", "")
    text = render(found, path)
    assert len(text) <= MAX_CHARS + len("; and 99 more")
    assert text.isprintable()
    assert journal_in(text) in (path, "" if len(path.encode()) > 100 else path)
    assert list(parse(text)) == found[: len(parse(text))]


@pytest.mark.parametrize(
    "comment",
    ["", "journal=/a", "holdfast: journal=relative/path", "holdfast: journal=/a%00b", "holdfast:"],
)
def test_a_comment_without_a_usable_path_names_no_journal(comment: str) -> None:
    assert journal_in(comment) == ""

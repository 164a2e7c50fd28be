"""Notices are packets of any user: what is accepted, and what is passed on."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from slurm_hooks.job import marker as markers
from slurm_hooks.job import notice as notices
from slurm_hooks.job.notice import Notice
from slurm_hooks.settings.notify import JobEvent

NOTICE = Notice(
    event=JobEvent.HELD, job=7, attempt=3, why="the same failure 3 times", lost_s=90.5, gpus=16
)
FACTS: dict[str, Any] = {
    "event": "held",
    "job": 7,
    "attempt": 3,
    "why": "x",
    "lost_s": 1.0,
    "gpus": 16,
}


def test_what_is_sent_is_read_again() -> None:
    assert notices.decoded(notices.encoded(NOTICE)) == NOTICE
    assert NOTICE.lost_gpu_hours == pytest.approx(16 * 90.5 / 3600)


def test_a_marker_is_no_notice_and_a_notice_no_marker() -> None:
    marker = markers.Marker(job=7, restarts=0, state="running", at=1.0)
    assert notices.decoded(markers.encoded(marker)) is None
    with pytest.raises(ValueError, match="unknown state"):
        markers.decoded(notices.encoded(NOTICE))


@pytest.mark.parametrize("data", [b"x", b"[]", b"{}", b"\xff", b"[" * 3000, b" " * 5000])
def test_other_packets_are_left_to_the_reader_of_markers(data: bytes) -> None:
    assert notices.decoded(data) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("event", "exploded"),
        ("event", ["held"]),
        ("job", -1),
        ("job", True),
        ("attempt", "1"),
        ("gpus", 2**40),
        ("why", 7),
        ("lost_s", "1"),
        ("lost_s", float("nan")),
        ("lost_s", float("inf")),
        ("lost_s", True),
    ],
)
def test_a_wrong_value_is_refused(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        notices.decoded(json.dumps({"notice": {**FACTS, key: value}}).encode())
    with pytest.raises(ValueError, match="JSON object"):
        notices.decoded(json.dumps({"notice": [key, str(value)]}).encode())


@pytest.mark.parametrize(("digits", "kept"), [("9" * 4000, 366 * 86400), ("-" + "9" * 4000, 0)])
def test_a_number_of_any_length_ends_no_agent(digits: str, kept: float) -> None:
    """A float holds 308 digits. The agent reads packets in its own process."""
    packet = json.dumps({"notice": {**FACTS, "lost_s": 1.5}}).replace("1.5", digits[:3800]).encode()
    found = notices.decoded(packet)
    assert found is not None
    assert found.lost_s == kept


_HOSTILE = ("9" * 3000, "-" + "9" * 400, "1e400", "NaN", "null", "[[]]", "{}", r'"\ud800\n"', "1.5")


_MARKER: dict[str, Any] = {
    **{"job": 7, "restarts": 0, "state": "running", "at": 1, "exclude": [], "release": []},
    **{"launchers_killed": 0, "journal": "/x", "owner": -1},
}


@pytest.mark.parametrize(
    ("read", "facts", "form"),
    [(notices.decoded, FACTS, '{"notice": %s}'), (markers.decoded, _MARKER, "%s")],
)
def test_no_value_of_a_packet_raises_another_error(
    read: Callable[[bytes], object], facts: dict[str, Any], form: str
) -> None:
    for key in facts:
        text = form % json.dumps({**facts, key: "HERE"})
        for value in _HOSTILE:
            with suppress(ValueError):
                read(text.replace('"HERE"', value).encode())


def test_the_reason_stays_one_short_line_of_printable_text() -> None:
    facts = {**FACTS, "why": "a\nSubject: b\x1b[2J" + "c" * 2000, "lost_s": 1e30}
    found = notices.decoded(json.dumps({"notice": facts}).encode())
    assert found is not None
    assert found.why.isprintable()
    assert len(found.why) == 500
    assert found.lost_s == 366 * 86400


def test_a_long_reason_fits_into_a_packet() -> None:
    long = Notice(event=JobEvent.FAILED, job=7, attempt=1, why="\N{CROSS MARK}" * 5000)
    assert len(notices.encoded(long)) < notices.MAX_BYTES
    found = notices.decoded(notices.encoded(long))
    assert found is not None
    assert found.why == "\N{CROSS MARK}" * 500

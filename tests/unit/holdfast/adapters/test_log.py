from __future__ import annotations

import io
from datetime import datetime, timezone

from holdfast.adapters.log import Log, line

AT = datetime(2026, 11, 21, 3, 4, 5, 678901, tzinfo=timezone.utc)


def test_one_line_of_pairs() -> None:
    stream = io.StringIO()
    Log("agent", stream, lambda: AT).warning("drained", node="worker-1", code="XID79", gpu=None)
    assert stream.getvalue() == (
        "2026-11-21T03:04:05.678Z warning agent: drained node=worker-1 code=XID79\n"
    )


def test_values_with_blanks_quotes_and_newlines_stay_one_field() -> None:
    text = line(AT, "info", "a", "x", {"why": 'say "hi"\nto\\all', "t": 0.123456789, "empty": ""})
    assert text.endswith(r'why="say \"hi\" to\\all" t=0.123457 empty=""')
    assert "\n" not in text


def test_a_log_that_cannot_be_written_raises_nothing() -> None:
    stream = io.StringIO()
    stream.close()
    Log("agent", stream).error("still alive")


def test_an_internal_error_is_one_line_with_the_calls_that_led_to_it() -> None:
    stream = io.StringIO()

    def innermost() -> float:
        return 1 / 0

    try:
        innermost()
    except ZeroDivisionError as error:
        Log("bridge", stream, lambda: AT).exception("pass failed", error, node="n1")
    (text,) = stream.getvalue().splitlines()
    assert 'pass failed node=n1 error="ZeroDivisionError: division by zero" trace="' in text
    calls = text.split('trace="')[1].rstrip('"').split()
    assert [call.split(":")[0] for call in calls] == ["test_log.py"] * 2
    assert int(calls[0].split(":")[1]) < int(calls[1].split(":")[1]), "the innermost first"

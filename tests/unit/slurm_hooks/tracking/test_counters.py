"""Counters: wrap, saturation, reset, and their rates."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.adapters.typed_json import typed
from slurm_hooks.tracking.counters import MAX_POINTS, Counter, advance, rebased


def looks(
    *values: int | None,
    saturates_at: int | None = None,
    wraps_at: int | None = None,
    keep_s: float = 0.0,
) -> Counter:
    """The counter after these values, ten seconds apart."""
    counter: Counter | None = None
    for number, value in enumerate(values):
        counter = advance(
            counter,
            value,
            1000.0 + 10 * number,
            saturates_at=saturates_at,
            wraps_at=wraps_at,
            keep_s=keep_s,
        )
    assert counter is not None
    return counter


def test_the_first_reading_is_a_baseline_and_unknown() -> None:
    assert looks(41).new is None
    assert looks(41).baseline == 41
    assert looks(41, 41).new == 0
    assert looks(41, 44).new == 3


def test_an_unreadable_value_is_unknown_and_loses_nothing() -> None:
    assert looks(None).new is None
    assert looks(5, 7, None).new is None
    assert looks(5, 7, None, 9).new == 4
    assert looks(None, 5, 6).new == 1
    assert looks(5, -1).new is None


def test_a_fall_is_a_reset_and_a_new_baseline() -> None:
    assert looks(50, 60, 3).new is None
    assert looks(50, 60, 3).baseline == 3
    assert looks(50, 60, 3, 4).new == 1


def test_a_saturated_counter_no_longer_counts() -> None:
    assert looks(0, 254, saturates_at=255).new == 254
    assert looks(0, 255, saturates_at=255).new is None
    assert looks(255, saturates_at=255).new is None
    assert looks(0, 255, 2, saturates_at=255).new is None, "cleared: a new baseline"
    assert looks(0, 255, 2, 3, saturates_at=255).new == 1
    assert looks(0, 300, saturates_at=255).new is None


def test_a_counter_counts_on_after_a_wrap() -> None:
    assert looks(250, 4, wraps_at=256).new == 10
    assert looks(250, 4, 250, 1, wraps_at=256).new is not None
    assert looks(250, 4, 100, 5, wraps_at=256).new is None, "more than half the range: a reset"
    assert looks(100, 3, wraps_at=2**32).new is None, "a small counter that decreased was reset"


def test_a_rate_needs_the_whole_window() -> None:
    assert looks(0, 10, 20, keep_s=60).rate_per_s(60) is None
    seven = looks(*range(0, 80, 10), keep_s=60)
    assert seven.rate_per_s(60) == pytest.approx(1.0)
    assert seven.new_in(60) in (60, 70)
    assert looks(0, 10).rate_per_s(10) is None, "no window is kept unless requested"


def test_a_rate_is_of_the_window_and_not_of_all_time() -> None:
    burst = looks(*[0] * 30, 600, keep_s=100)
    rate = burst.rate_per_s(100)
    assert rate is not None
    assert 5 <= rate <= 6


def test_a_reset_begins_the_window_again() -> None:
    assert looks(*range(0, 200, 10), 1, 2, 3, keep_s=60).rate_per_s(60) is None


def test_an_unchanged_value_changes_nothing() -> None:
    before = looks(5, 7, 7)
    assert advance(before, 7, 5000.0) is before
    full = looks(5, 255, saturates_at=255)
    assert advance(full, 255, 5000.0, saturates_at=255) == full


def test_a_clock_set_back_does_not_invent_rates() -> None:
    before = looks(*range(0, 200, 10), keep_s=60)
    assert advance(before, 200, 3.0, keep_s=60).rate_per_s(60) is None


def test_rebased_starts_from_the_current_value() -> None:
    assert rebased(looks(5, 9)).new == 0
    assert rebased(looks(250, 4, wraps_at=256)).new == 0
    assert rebased(Counter()) == Counter()


def test_a_counter_is_read_back_from_json() -> None:
    for counter in (Counter(), looks(5, 9), looks(*range(0, 200, 10), keep_s=60)):
        assert typed(json.loads(json.dumps(dataclasses.asdict(counter))), Counter) == counter


@given(
    increments=st.lists(st.integers(0, 5000), min_size=1, max_size=60),
    start=st.integers(0, 2**16 - 1),
)
def test_wraps_lose_nothing(increments: list[int], start: int) -> None:
    counter, total = advance(None, start, 0.0, wraps_at=2**16), start
    for number, more in enumerate(increments, 1):
        total += more
        counter = advance(counter, total % 2**16, float(number), wraps_at=2**16)
    assert counter.new == total - start


@given(values=st.lists(st.one_of(st.none(), st.integers(-3, 400)), max_size=80))
def test_garbage_never_gives_a_negative_count(values: list[int | None]) -> None:
    counter: Counter | None = None
    for number, value in enumerate(values):
        counter = advance(
            counter, value, 10.0 * number, saturates_at=255, wraps_at=None, keep_s=100
        )
        assert counter.new is None or counter.new >= 0
        rate = counter.rate_per_s(100)
        assert rate is None or rate >= 0
        assert len(counter.window) <= MAX_POINTS

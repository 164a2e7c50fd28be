"""Counters with wraps, saturation, resets, reboots and unreadable values, in any order."""

from __future__ import annotations

import dataclasses
import json
import random
import types
import typing
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.adapters.typed_json import typed
from slurm_hooks.evaluation.observer import demand
from slurm_hooks.tracking.counters import MAX_POINTS, Counter, advance, rebased
from slurm_hooks.tracking.node import TrackedState
from slurm_hooks.tracking.reboot import booted

WRAPS_AT = 1 << 16
STEPS = st.lists(st.integers(0, WRAPS_AT // 2 - 1), min_size=1, max_size=40)
VALUES = st.lists(st.one_of(st.none(), st.integers(-1, 300)), max_size=40)


def run(values: list[int | None], **how: Any) -> list[Counter]:
    """The counter after each look, one second apart."""
    counter: Counter | None = None
    found = []
    for now, value in enumerate(values):
        counter = advance(counter, value, float(now), **how)
        found.append(counter)
    return found


# --- wrap -----------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(st.integers(0, WRAPS_AT - 1), STEPS)
def test_wraps_lose_nothing(start: int, steps: list[int]) -> None:
    """Whatever the hardware shows, what came since the baseline is what really came."""
    total, shown = start, [start]
    for step in steps:
        total += step
        shown.append(total % WRAPS_AT)
    *_, last = run(list(shown), wraps_at=WRAPS_AT)
    assert last.new == sum(steps)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, WRAPS_AT - 1), STEPS, st.data())
def test_wraps_across_unreadable_values(start: int, steps: list[int], data: st.DataObject) -> None:
    total, shown = start, [start]
    silent: list[int | None] = [start]
    for step in steps:
        small = step // len(steps)  # together below half the range
        total += small
        shown.append(total % WRAPS_AT)
        silent.append(None if data.draw(st.booleans()) else shown[-1])
    silent.append(shown[-1])
    *_, last = run(silent, wraps_at=WRAPS_AT)
    assert last.new == total - start


# --- saturation -----------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 400), min_size=1, max_size=40))
def test_a_saturated_counter_is_unknown(values: list[int]) -> None:
    for value, counter in zip(values, run(list(values), saturates_at=255), strict=True):
        if value >= 255:
            assert counter.new is None
            assert counter.rate_per_s(1.0) is None
            assert counter.new_in(1.0) is None
        elif counter.new is not None:
            assert 0 <= counter.new <= 255


def test_a_saturated_counter_that_was_reset_counts_again() -> None:
    counters = run([3, 255, 255, 0, 2], saturates_at=255)
    assert [counter.new for counter in counters] == [None, None, None, None, 2]


def test_a_saturated_counter_does_not_wrap() -> None:
    counters = run([257, 255, 0, 1], saturates_at=255, wraps_at=256)
    assert [counter.new for counter in counters] == [None, None, None, 1]


# --- reset, first reading, unreadable ---------------------------------------------------------------


@settings(max_examples=400, deadline=None)
@given(VALUES, st.sampled_from([None, 255]), st.sampled_from([None, 256]))
def test_new_is_never_negative_and_never_more_than_the_growth(
    values: list[int | None], saturates_at: int | None, wraps_at: int | None
) -> None:
    before: Counter | None = None
    for now, value in enumerate(values):
        counter = advance(before, value, float(now), saturates_at=saturates_at, wraps_at=wraps_at)
        new = counter.new
        if value is None or value < 0 or before is None or before.value is None:
            assert new is None, "nothing to compare with"
        if new is not None:
            assert new >= 0
            assert value is not None
        before = counter


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=2, max_size=40))
def test_a_fall_is_a_reset_and_a_new_baseline(values: list[int]) -> None:
    baseline, previous = values[0], values[0]
    for value, counter in list(zip(values, run(list(values)), strict=True))[1:]:
        if value < previous:
            baseline = value
            assert counter.new is None, "the first reading after a reset is a baseline"
        else:
            assert counter.new == value - baseline
        previous = value


@settings(max_examples=200, deadline=None)
@given(VALUES)
def test_a_saved_counter_continues_unchanged(values: list[int | None]) -> None:
    for counter in run(values, keep_s=10.0):
        text = json.dumps(dataclasses.asdict(counter))
        assert typed(json.loads(text), Counter) == counter


@settings(max_examples=200, deadline=None)
@given(VALUES)
def test_rebased_counters_have_nothing_new(values: list[int | None]) -> None:
    for counter in run(values):
        assert rebased(counter).new in (None, 0)


def test_an_idle_counter_is_the_same_value() -> None:
    counters = run([7] * 5)
    assert counters[1] is counters[2] is counters[4]


# --- rates ----------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 50), st.integers(5, 200), st.floats(2.0, 60.0))
def test_a_steady_rate_is_exact(per_s: int, looks: int, window_s: float) -> None:
    counter: Counter | None = None
    for now in range(looks):
        counter = advance(counter, now * per_s, float(now), keep_s=window_s)
        assert len(counter.window) <= MAX_POINTS
        rate = counter.rate_per_s(window_s)
        assert rate is None or rate == pytest.approx(per_s)
        if now <= window_s:
            assert rate is None or now >= window_s, "not followed for as long yet"
    assert counter is not None
    if looks - 1 >= window_s * 1.2 + 2 and per_s:
        assert counter.rate_per_s(window_s) is not None


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.floats(5.0, 100.0))
def test_a_burst_leaves_the_window(seed: int, window_s: float) -> None:
    """What came longer ago than the window (and one point's distance) counts no more."""
    chance, counter, value, now = random.Random(seed), None, 0, 0.0
    while now < window_s * 1.5:
        now += chance.uniform(0.5, 1.5)
        value += chance.randint(0, 9)
        counter = advance(counter, value, now, keep_s=window_s)
    quiet_from = now
    while now < quiet_from + window_s * 1.5 + 4:
        now += chance.uniform(0.5, 1.5)
        value += 1  # a look that changes nothing leaves the counter as it is
        counter = advance(counter, value, now, keep_s=window_s)
    assert counter is not None
    recent = counter.new_in(window_s)
    assert recent is not None
    assert recent <= value


def test_a_clock_that_is_set_back_begins_the_window_again() -> None:
    counter: Counter | None = None
    for now in (100.0, 110.0, 120.0, 5.0, 6.0):
        counter = advance(counter, int(now), now, keep_s=10.0)
        rate = counter.rate_per_s(10.0)
        assert rate is None or rate >= 0


# --- reboot ---------------------------------------------------------------------------------------


def _filled(kind: Any) -> Any:
    """A value of this type with something in every corner of it, whatever fields it has by now."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _filled(inner[0])
    if origin is tuple:
        return tuple(_filled(one) for one in inner if one is not Ellipsis)
    if origin is not None:
        return {_filled(inner[0]): _filled(inner[1])}
    if dataclasses.is_dataclass(kind):
        hints, make = typing.get_type_hints(kind), typing.cast("Any", kind)
        return make(
            **{field.name: _filled(hints[field.name]) for field in dataclasses.fields(kind)}
        )
    if issubclass(kind, Enum):
        return list(kind)[-1]
    return {int: 3, float: 5.0, str: "x", bool: True}[kind]


def _counters(value: Any) -> Iterator[Counter]:
    if isinstance(value, Counter):
        yield value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _counters(getattr(value, field.name))
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _counters(inner)
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from _counters(inner)


def test_a_reboot_leaves_no_counter_of_the_boot_before() -> None:
    """A counter of another boot would call everything new, or hide what is (rule 10)."""
    before = replace(_filled(TrackedState), boot_id="one")
    after = booted(before, "two", demand)
    assert [one for one in _counters(after) if one.value is not None or one.window] == []
    assert booted(before, "one", demand) == before


def test_a_state_without_counters_is_valid() -> None:
    assert list(_counters(TrackedState())) == []

"""Events in, a score out: what counts, what does not, and what is unknown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.history import lemon
from holdfast.history.event import Event
from holdfast.history.lemon import Rating

NOW = 1_764_000_000.0
DAY = 86400.0


def event(name: str, days_ago: float = 1.0, code: str = "XID79", **facts: Any) -> Event:
    known = {"gpu_uuid": "GPU-3", **{k: facts.pop(k) for k in ("gpu_uuid", "node") if k in facts}}
    return Event(t=NOW - days_ago * DAY, event=name, code=code, facts=facts, **known)


def counts(*events: Event) -> dict[str, int]:
    return {name: n for name, n in lemon.count_of(events, NOW).items() if n}


def test_no_events_are_good() -> None:
    found = lemon.score([], NOW)
    assert (found.value, found.rating) == (0.0, Rating.GOOD)
    assert set(found.counts) == lemon.ALWAYS


def test_each_signal_counts_its_events() -> None:
    assert counts(event("finding_opened")) == {"faults": 1}
    assert counts(event("finding_opened", action="replace")) == {"faults": 1, "repairs": 1}
    assert counts(event("drained")) == {"drains": 1}
    assert counts(event("active_check", code="", verdict="failed")) == {"repairs": 1}
    assert counts(event("active_check", code="", verdict="error")) == {}
    assert counts(event("gpu_replaced", code="")) == {"repairs": 1}
    hits = [event("job_affected", job=7, run=run) for run in (0, 0, 1)]
    assert counts(*hits) == {"affected_jobs": 2}, "a run that several GPUs spoilt is one"


@pytest.mark.parametrize(
    "harmless",
    [
        event("finding_opened", code="MOUNT_HUNG"),  # the file server's
        event("finding_opened", code="XID31"),  # the job's
        event("finding_opened", cause=False),  # a consequence
        event("finding_opened", action="wait"),
        event("drained", code="MOUNT_HUNG", action="wait"),
        event("drained", code="KUBE_CORDON"),
        event("finding_closed"),
        event("boot", code=""),
    ],
)
def test_a_fault_that_is_not_of_the_hardware_makes_no_lemon(harmless: Event) -> None:
    assert counts(harmless) == {}


def test_a_drain_that_was_withdrawn_does_not_count() -> None:
    assert counts(event("drained", 2), event("withdrawn", 1.99)) == {}
    assert counts(event("drained", 2), event("withdrawn", 1.99), event("drained", 1)) == {
        "drains": 1
    }


def test_a_burst_counts_once_and_two_gpus_count_twice() -> None:
    burst = [event("finding_opened", 1 - n / 86400) for n in range(0, 900, 170)]
    assert counts(*burst) == {"faults": 1}
    assert counts(*burst, event("finding_opened", 1 - 1200 / 86400)) == {"faults": 2}
    sources = [event("finding_opened", 1, code=code) for code in ("XID79", "GPU_LOST", "XID48")]
    assert counts(*sources) == {"faults": 1}, "one GPU, seen by three"
    worst = event("finding_opened", 1, action="replace")
    assert counts(*sources, worst) == {"faults": 1, "repairs": 1}
    both = [event("finding_opened"), event("finding_opened", gpu_uuid="GPU-4")]
    assert counts(*both) == {"faults": 2}


def test_events_before_the_window_do_not_count() -> None:
    assert counts(event("drained", 27.9), event("drained", 28.1)) == {"drains": 1}
    assert counts(event("drained", -1)) == {}, "a clock that was wrong"


def test_two_drains_make_a_lemon_with_any_score() -> None:
    found = lemon.score([event("drained", 9), event("drained", 2)], NOW)
    assert found.value < lemon.LEMON_AT
    assert found.rating is Rating.LEMON


def test_the_formula() -> None:
    past = [event("finding_opened", n) for n in range(1, 4)]  # 3 of 4, weight 0.20
    past += [event("drained", 1)]  # 1 of 3, weight 0.15
    expected = (0.2 * 3 / 4 + 0.15 * 1 / 3) / (0.2 + 0.15 + 0.15)
    found = lemon.score(past, NOW)
    assert found.value == pytest.approx(expected)
    assert found.rating is Rating.WATCH


def test_an_unknown_signal_is_not_zero() -> None:
    past = [event("finding_opened", n) for n in range(1, 5)]
    alone = lemon.score(past, NOW)
    with_jobs = lemon.score(past, NOW, known=lemon.known_signals([event("job_affected")]))
    assert alone.value > with_jobs.value
    assert "affected_jobs" in with_jobs.counts
    assert "affected_jobs" not in alone.counts


def test_the_fleet_sets_the_reference_values() -> None:
    few = [lemon.count_of([], NOW)] * 19
    assert lemon.reference_of(few) is lemon.REFERENCE
    noisy = lemon.count_of([event("finding_opened", n) for n in range(1, 11)], NOW)
    reference = lemon.reference_of([noisy] * 10 + few)
    assert reference["faults"] == 10
    assert reference["drains"] == 1, "never below one"


_NAMES = st.sampled_from(
    [
        "finding_opened",
        "finding_closed",
        "drained",
        "withdrawn",
        "job_affected",
        "active_check",
        "x",
    ]
)
_EVENTS = st.lists(
    st.builds(
        Event,
        t=st.floats(NOW - 40 * DAY, NOW + DAY),
        event=_NAMES,
        code=st.sampled_from(["XID79", "XID48", "MOUNT_HUNG", "NO_SUCH", ""]),
        gpu_uuid=st.sampled_from(["", "GPU-1"]),
        facts=st.dictionaries(
            st.sampled_from(["action", "job", "verdict", "cause", "subject"]),
            st.sampled_from(["reboot", "failed", 7, None, True]),
        ),
    ),
    max_size=30,
)


@given(_EVENTS)
def test_any_past_has_a_score_between_0_and_1(past: list[Event]) -> None:
    found = lemon.score(past, NOW, known=lemon.known_signals(past))
    assert 0 <= found.value <= 1
    assert lemon.score(list(reversed(past)), NOW, known=lemon.known_signals(past)) == found


@given(_EVENTS)
def test_one_more_fault_never_makes_it_better(past: list[Event]) -> None:
    more = [*past, event("finding_opened", 0.001, gpu_uuid="GPU-other")]
    assert lemon.score(more, NOW).value >= lemon.score(past, NOW).value

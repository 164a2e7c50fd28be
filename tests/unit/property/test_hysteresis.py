"""Open and clear rules in any order of found, clean and blind passes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.findings import Finding
from holdfast.vocabulary import Action, Mode, Severity
from slurm_hooks import checks
from slurm_hooks.evaluation.judge import fold, nothing_drains, opened
from slurm_hooks.facts import GpuFacts, NodeFacts, NvmlFacts
from slurm_hooks.settings.sections import CheckConfig
from slurm_hooks.tracking.node import Streak

SEEN, CLEAN, BLIND, LOST = "seen", "clean", "blind", "lost"
"""One pass: the fault shows; it does not; the probe is silent; the GPU in question is."""

CHECK = "gpu_thermal"
"""A check of single GPUs whose probe is NVML; what it judges is replaced here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    open_after: int
    clear_after: int


LIMITS = st.builds(Limits, open_after=st.integers(1, 5), clear_after=st.integers(1, 7))
PASSES = st.lists(st.sampled_from([SEEN, SEEN, CLEAN, CLEAN, BLIND, LOST]), max_size=60)


def hot(facts: NodeFacts) -> Iterator[Finding]:
    for gpu in facts.gpus:
        if gpu.clock_reasons:
            yield Finding(
                code="GPU_THERMAL",
                severity=Severity.WARN,
                subject="GPU-0",
                detail="hot",
                action=Action.WAIT,
                gpu=gpu.index,
            )


@pytest.fixture(autouse=True)
def _bare_check(monkeypatch: pytest.MonkeyPatch) -> None:
    check = replace(checks.load(CHECK), judge=lambda facts, _limits: hot(facts))
    monkeypatch.setattr(checks, "load", lambda _name: check)


def facts_of(what: str) -> NodeFacts:
    gpu = GpuFacts(
        index=0,
        uuid="GPU-0",
        clock_reasons=0x40 if what == SEEN else 0,
        state_code=15 if what == LOST else None,
    )
    return NodeFacts(expected_gpus=8, nvml=NvmlFacts(count=1, gpus=(gpu,)))


def states(passes: list[str], limits: Limits) -> list[bool]:
    """Whether the finding is open after each pass."""
    table = {CHECK: CheckConfig(limits=limits, mode=Mode.DRAIN)}
    streaks: dict[str, Streak] = {}
    found = []
    for now, what in enumerate(passes):
        looked = frozenset() if what == BLIND else frozenset({"nvml"})
        streaks = fold(streaks, table, facts_of(what), looked, float(now))
        entries = opened(streaks, table)
        assert len(entries) <= 1
        assert all(entry.since <= now for entry in entries)
        found.append(bool(entries))
    return found


@settings(max_examples=500, deadline=None)
@given(PASSES, LIMITS)
def test_it_opens_and_closes_only_by_its_rules(passes: list[str], limits: Limits) -> None:
    before = False
    looks: list[str] = []
    for what, now in zip(passes, states(passes, limits), strict=True):
        if what in (BLIND, LOST):
            assert now == before, "a pass without an answer changes nothing"
        else:
            looks.append(what)
        if now and not before:
            assert looks[-limits.open_after :] == [SEEN] * limits.open_after
        if before and not now:
            assert looks[-limits.clear_after :] == [CLEAN] * limits.clear_after
        before = now


@settings(max_examples=300, deadline=None)
@given(PASSES, LIMITS)
def test_it_never_stays_what_its_rules_have_changed(passes: list[str], limits: Limits) -> None:
    """The other way round: enough sights in a row are open, enough clean looks in a row are closed."""
    looks: list[str] = []
    for what, now in zip(passes, states(passes, limits), strict=True):
        if what not in (BLIND, LOST):
            looks.append(what)
        if looks[-limits.open_after :] == [SEEN] * limits.open_after:
            assert now
        if looks[-limits.clear_after :] == [CLEAN] * limits.clear_after:
            assert not now


@settings(max_examples=300, deadline=None)
@given(PASSES, LIMITS)
def test_it_never_flaps_faster_than_its_rules(passes: list[str], limits: Limits) -> None:
    since, before = 0, False
    for what, now in zip(passes, states(passes, limits), strict=True):
        since += what not in (BLIND, LOST)
        if now != before:
            assert since >= (limits.open_after if now else limits.clear_after)
            since = 0
        before = now


@settings(max_examples=500, deadline=None)
@given(PASSES, LIMITS)
def test_no_pass_is_clean_for_a_node_whose_fault_was_seen_last(
    passes: list[str], limits: Limits
) -> None:
    """Neither while the finding is open, nor on its way there: only a clean look is evidence."""
    table = {CHECK: CheckConfig(limits=limits, mode=Mode.DRAIN)}
    streaks: dict[str, Streak] = {}
    looks = [CLEAN]
    for now, what in enumerate(passes):
        looked = frozenset() if what == BLIND else frozenset({"nvml"})
        streaks = fold(streaks, table, facts_of(what), looked, float(now))
        looks += [what] if what in (SEEN, CLEAN) else []
        speaks = nothing_drains(streaks, table, facts_of(what))
        assert not (speaks and (looks[-1] == SEEN or opened(streaks, table)))
        assert speaks or streaks


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([BLIND, LOST]), max_size=40), LIMITS)
def test_blindness_alone_opens_nothing(passes: list[str], limits: Limits) -> None:
    assert not any(states(passes, limits))


@settings(max_examples=200, deadline=None)
@given(PASSES, LIMITS, st.data())
def test_a_restart_in_between_changes_nothing(
    passes: list[str], limits: Limits, data: st.DataObject
) -> None:
    """The streaks are all that is remembered: going on from them is going on."""
    cut = data.draw(st.integers(0, len(passes)))
    table = {CHECK: CheckConfig(limits=limits, mode=Mode.DRAIN)}

    def after(streaks: dict[str, Streak], part: list[str], start: int) -> dict[str, Streak]:
        for now, what in enumerate(part, start):
            looked = frozenset() if what == BLIND else frozenset({"nvml"})
            streaks = fold(streaks, table, facts_of(what), looked, float(now))
        return streaks

    whole = after({}, passes, 0)
    assert after(dict(after({}, passes[:cut], 0)), passes[cut:], cut) == whole


def test_two_findings_are_counted_separately(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long random stories of two GPUs: each has its own streak."""
    chance = random.Random(1)
    limits = Limits(open_after=3, clear_after=4)
    table = {CHECK: CheckConfig(limits=limits, mode=Mode.DRAIN)}

    def judge(facts: NodeFacts, _limits: object) -> Iterator[Finding]:
        for gpu in facts.gpus:
            if gpu.clock_reasons:
                yield Finding(
                    code="GPU_THERMAL", severity=Severity.WARN, subject=gpu.subject, detail="hot", gpu=gpu.index
                )  # fmt: skip

    check = replace(checks.load(CHECK), judge=judge)
    monkeypatch.setattr(checks, "load", lambda _name: check)
    streaks: dict[str, Streak] = {}
    alone: list[list[str]] = [[], []]
    for now in range(400):
        hot_ones = [chance.random() < 0.6 for _ in range(2)]
        gpus = tuple(
            GpuFacts(index=i, uuid=f"GPU-{i}", clock_reasons=0x40 * on)
            for i, on in enumerate(hot_ones)
        )
        facts = NodeFacts(expected_gpus=8, nvml=NvmlFacts(count=2, gpus=gpus))
        streaks = fold(streaks, table, facts, frozenset({"nvml"}), float(now))
        for i, on in enumerate(hot_ones):
            alone[i].append(SEEN if on else CLEAN)
        open_now = {entry.finding.gpu for entry in opened(streaks, table)}
        for i in range(2):
            if alone[i][-3:] == [SEEN] * 3:
                assert i in open_now
            if alone[i][-4:] == [CLEAN] * 4:
                assert i not in open_now

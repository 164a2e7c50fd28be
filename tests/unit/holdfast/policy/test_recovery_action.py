"""One action from NVML's recovery action, Xid 154 and the fault catalogue."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.policy.recovery_action import (
    RECOVERY_ACTIONS,
    Evidence,
    Strength,
    fuse,
    of_nvml,
    of_xid_154,
)
from holdfast.vocabulary import Action, Severity

NVML = Strength.DRIVER


def book(action: Action, *, cause: bool = True, severity: Severity = Severity.FATAL) -> Evidence:
    return Evidence(source=f"book {action.value}", action=action, cause=cause, severity=severity)


def test_no_evidence_requires_no_action() -> None:
    assert fuse([]) is None
    assert fuse([book(Action.NONE), of_xid_154(0, "None")]) is None
    assert of_nvml(None) is None
    assert of_nvml(0) is None


def test_the_book_alone() -> None:
    demand = fuse([book(Action.RESET_GPU), book(Action.REBOOT)])
    assert demand is not None
    assert (demand.action, demand.because.source) == (Action.REBOOT, "book reboot")


@pytest.mark.parametrize("asked", [1, 2])
def test_the_driver_outranks_the_catalogue_in_either_direction(asked: int) -> None:
    word = of_nvml(asked)
    assert word is not None
    for action in (Action.RESET_GPU, Action.REBOOT):
        demand = fuse([book(action), word])
        assert demand is not None
        assert demand.action is RECOVERY_ACTIONS[asked][1]
        assert demand.because is word


def test_of_two_different_reports_of_the_driver_the_stronger_counts() -> None:
    nvml = of_nvml(1)
    assert nvml is not None
    demand = fuse([of_xid_154(2, "Node Reboot Required"), nvml])
    assert demand is not None
    assert demand.action is Action.REBOOT
    assert demand.because.source == "Xid 154 (node reboot)"
    same = fuse([of_xid_154(1, "GPU Reset Required"), nvml])
    assert same is not None
    assert same.because is nvml, "the strongest of those that agree is named"


def test_a_fault_that_needs_a_person_needs_no_reset() -> None:
    word = of_nvml(1)
    assert word is not None
    demand = fuse([book(Action.CONTACT_SUPPORT), word])
    assert demand is not None
    assert demand.action is Action.CONTACT_SUPPORT
    plan = book(Action.CONTACT_SUPPORT, severity=Severity.WARN)
    demand = fuse([plan, word])
    assert demand is not None
    assert demand.action is Action.RESET_GPU, "a replacement to be planned can wait"


def test_an_application_fault_is_no_statement_about_the_gpu() -> None:
    restart = book(Action.RESTART_JOB, severity=Severity.INFO)
    demand = fuse([restart, book(Action.RESET_GPU)])
    assert demand is not None
    assert demand.action is Action.RESET_GPU
    alone = fuse([restart])
    assert alone is not None
    assert alone.action is Action.RESTART_JOB


@pytest.mark.parametrize(
    ("value", "text", "action"),
    [
        (2, "Node Reboot Required", Action.REBOOT),
        (2, "OS Reboot", Action.REBOOT),
        (1, "PF FLR", Action.RESET_GPU),
        (None, "GPU Reset Required", Action.RESET_GPU),
        (None, "drain p2p", Action.RESET_GPU),
        (None, "None", Action.NONE),
        (0, "whatever", Action.NONE),
        (5, "Recover IMEX", Action.NONE),
        (99, "Something New", Action.REBOOT),
        (None, "Something New", Action.REBOOT),
        (None, None, Action.REBOOT),
    ],
)
def test_xid_154_by_its_number_else_by_its_text(
    value: int | None, text: str | None, action: Action
) -> None:
    assert of_xid_154(value, text).action is action


def test_an_unknown_recovery_action_of_nvml_is_acted_on() -> None:
    word = of_nvml(42)
    assert word is not None
    assert word.action is Action.REBOOT
    assert "42" in word.source


evidence = st.builds(
    Evidence,
    source=st.sampled_from(["a", "b", "c"]),
    action=st.sampled_from(Action),
    strength=st.sampled_from(Strength),
    severity=st.sampled_from(Severity),
    cause=st.booleans(),
)


@given(st.lists(evidence, max_size=6))
def test_the_order_changes_no_action_and_the_named_source_requires_it(
    items: list[Evidence],
) -> None:
    demand = fuse(items)
    for order in itertools.islice(itertools.permutations(items), 24):
        other = fuse(order)
        assert (other.action if other else None) == (demand.action if demand else None)
    if demand is None:
        assert all(item.action is Action.NONE for item in items)
    else:
        assert demand.because in items
        assert demand.because.action is demand.action is not Action.NONE


@given(st.lists(evidence, max_size=6), evidence)
def test_a_consequence_never_outranks_a_cause(items: list[Evidence], other: Evidence) -> None:
    cause = Evidence(source="cause", action=Action.RESET_GPU)
    follows = Evidence(
        source="follows", action=other.action, strength=other.strength, severity=other.severity, cause=False
    )  # fmt: skip
    assert fuse([cause, *items, follows]) == fuse([cause, *items])

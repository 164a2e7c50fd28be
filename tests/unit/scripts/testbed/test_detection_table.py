"""The table of expected findings is complete and agrees with the catalogues."""

from __future__ import annotations

import pytest
from testbed.faults import KINDS
from testbed.faults.arguments import parse

from holdfast.faults import fault_of, is_known
from holdfast.vocabulary import Action, Severity
from slurm_hooks.checks import CATALOGUE
from tests.e2e.detection.switches import NOT_SWITCHED, SWITCHED, TOGETHER
from tests.e2e.detection.table import CASES, NOT_JUDGED, Case


def test_every_kind_of_fault_is_in_the_table_or_excluded_with_a_reason() -> None:
    """A new kind needs a row in tests/e2e/detection/table.py: the finding that an agent must report."""
    judged = {case.kind for case in CASES}
    assert judged & set(NOT_JUDGED) == set()
    assert judged | set(NOT_JUDGED) == set(KINDS)
    assert all(NOT_JUDGED.values())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.words)
def test_a_row_names_existing_kinds_checks_and_codes(case: Case) -> None:
    kind, *words = case.words.split()
    parse(kind, KINDS[kind].arguments, words)
    assert case.check in CATALOGUE
    for code in (case.code, *case.also):
        assert is_known(code), code
    assert Action(case.action)
    assert case.severity in {severity.name.lower() for severity in Severity}
    if case.drains:
        assert case.severity == "fatal" or any(fault_of(c).drains for c in (case.code, *case.also))
    else:
        assert case.severity != "fatal"


def test_rows_are_unique() -> None:
    assert len({case.words for case in CASES}) == len(CASES)


def test_the_combined_faults_are_valid() -> None:
    for words in (text.split() for node in TOGETHER.values() for text in node):
        parse(words[0], KINDS[words[0]].arguments, words[1:])


def test_every_check_is_switched_off_once_or_excluded_with_a_reason() -> None:
    """A new check belongs in SWITCHED, with its fault in TOGETHER; else in NOT_SWITCHED with a reason."""
    assert SWITCHED & set(NOT_SWITCHED) == set()
    assert SWITCHED | set(NOT_SWITCHED) == set(CATALOGUE)

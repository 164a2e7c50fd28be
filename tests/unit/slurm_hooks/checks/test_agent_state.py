"""Facts in, findings out: a state folder that cannot be written, and a return that is unconfirmed."""

from __future__ import annotations

import pytest

from slurm_hooks.checks import agent_state
from slurm_hooks.facts import NodeFacts

FULL = "drain.json: No space left on device"
UNKNOWN = "accounting does not report which drain the return ended (no answer)"


@pytest.mark.parametrize(
    ("unwritten", "unconfirmed", "expected"),
    [
        ("", "", []),
        (FULL, "", [("STATE_UNWRITABLE", "state folder", FULL)]),
        ("", UNKNOWN, [("RETURN_UNCONFIRMED", "node", UNKNOWN)]),
        (
            FULL,
            UNKNOWN,
            [
                ("STATE_UNWRITABLE", "state folder", FULL),
                ("RETURN_UNCONFIRMED", "node", UNKNOWN),
            ],
        ),
    ],
)
def test_each_problem_of_the_agent_itself_is_a_finding_with_its_reason(
    unwritten: str, unconfirmed: str, expected: list[tuple[str, str, str]]
) -> None:
    facts = NodeFacts(expected_gpus=8, unwritten=unwritten, unconfirmed=unconfirmed)
    limits = agent_state.Limits()
    found = list(agent_state.judge(facts, limits))
    assert [(one.code, one.subject, one.detail) for one in found] == expected
    shown = agent_state.show(facts, limits)
    assert [(one.code, one.subject, one.value) for one in shown] == expected


def test_one_pass_opens_the_finding() -> None:
    assert agent_state.Limits().open_after == 1
    assert agent_state.CHECK.judge is agent_state.judge

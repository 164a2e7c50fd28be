"""How long a node waits that returned before, and when it needs a person."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from holdfast.policy import flap_damping
from holdfast.policy.flap_damping import Return
from holdfast.policy.node_inputs import DrainInputs, NodeSituation, ReturnLimits
from holdfast.policy.ownership import DrainRecord
from holdfast.policy.return_conditions import pending_requirement
from holdfast.reason import Reason
from holdfast.vocabulary import Action
from tests.unit.holdfast.policy.node_examples import HEALTHY, IDLE

NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
LIMITS = ReturnLimits(wait_s=30, max_wait_s=3600, return_window_s=3600, max_returns=4)


def back(minutes_ago: float, code: str = "MOUNT_GONE") -> Return:
    return Return(code=code, at=NOW.timestamp() - minutes_ago * 60)


@pytest.mark.parametrize(
    ("returns", "counted"),
    [
        ((), 0),
        ((back(1),), 1),
        ((back(1), back(30), back(59)), 3),
        ((back(1), back(61)), 1),
        ((back(1, "MOUNT_HUNG"), back(2)), 1),
        ((back(-30),), 1),
        ((back(-90),), 0),
    ],
    ids=["none", "one", "three", "one is old", "another code", "a clock set back", "by a lot"],
)
def test_what_counts(returns: tuple[Return, ...], counted: int) -> None:
    assert flap_damping.count(returns, "MOUNT_GONE", LIMITS, NOW) == counted


def test_without_a_window_nothing_counts() -> None:
    assert (
        flap_damping.count((back(0), back(1)), "MOUNT_GONE", ReturnLimits(return_window_s=0), NOW)
        == 0
    )


@pytest.mark.parametrize(
    ("returns", "waits"),
    [(0, 30), (1, 60), (2, 120), (3, 240), (6, 1920), (7, 3600), (1000, 3600)],
)
def test_the_wait_doubles_up_to_a_limit(returns: int, waits: float) -> None:
    assert flap_damping.wait_s(returns, LIMITS) == waits


def test_a_site_without_a_wait_gets_one_from_the_second_time_on() -> None:
    none = ReturnLimits(wait_s=0)
    assert [flap_damping.wait_s(returns, none) for returns in range(4)] == [0, 2, 4, 8]
    longer = ReturnLimits(wait_s=7200, max_wait_s=3600)
    assert [flap_damping.wait_s(returns, longer) for returns in range(2)] == [7200, 7200]


@pytest.mark.parametrize(
    ("returns", "most", "asks"), [(3, 4, False), (4, 4, True), (9, 4, True), (9, 0, False)]
)
def test_when_a_person_is_asked(returns: int, most: int, asks: bool) -> None:
    assert flap_damping.needs_person(returns, ReturnLimits(max_returns=most)) is asks


def test_the_reason_asks_for_a_person_and_is_decoded() -> None:
    """At the start: a reason that is too long is cut at the end."""
    text = flap_damping.prefix(4, LIMITS) + "/mnt/training: gone" + "." * 300
    reason = Reason.parse(str(Reason("MOUNT_GONE", text, {"boot": "aaaaaaaa", "returns": "4"})))
    assert reason is not None
    assert reason.detail.startswith("returned 4 times in 60 min, resume by hand: /mnt/training")
    assert flap_damping.is_by_hand(reason)
    assert flap_damping.returns_in(reason) == 4
    other = Reason("MOUNT_GONE", "/mnt/training: gone, resume by hand: no", {"returns": "x"})
    assert not flap_damping.is_by_hand(other)
    assert flap_damping.returns_in(other) == 0


def record(action: Action = Action.WAIT, returns: int = 0, by_hand: bool = False) -> DrainRecord:
    return DrainRecord(
        reason="r",
        actor="root",
        at=NOW,
        written_at=NOW,
        code="MOUNT_GONE",
        action=action,
        boot_id="boot-1",
        instance_id="i-1",
        returns=returns,
        by_hand=by_hand,
    )


@pytest.mark.parametrize(
    ("record", "boot", "instance", "after_s", "requirement"),
    [
        (record(), "boot-1", "i-1", 29, "waits 1 s more"),
        (record(), "boot-1", "i-1", 30, ""),
        (record(returns=2), "boot-1", "i-1", 30, "waits 90 s more, as it returned 2 times before"),
        (record(returns=2), "boot-1", "i-1", 120, ""),
        (record(returns=2), "boot-2", "i-1", 30, "waits 90 s more, as it returned 2 times before"),
        (record(returns=2), "boot-2", "i-2", 30, ""),
        (record(Action.REBOOT), "boot-2", "i-1", 0, ""),
        (record(Action.REBOOT, 1), "boot-1", "i-1", 600, "waits for a reboot (a new boot id)"),
        (record(Action.REBOOT, 1), "boot-2", "i-1", 59, "waits 1 s more, as it returned once before"),
        (record(Action.REBOOT, 1), "boot-2", "i-1", 60, ""),
        (record(Action.REPLACE, 3, True), "boot-2", "i-2", 0, ""),
        (record(by_hand=True, returns=4), "boot-2", "i-1", 10**7,
         "needs a person: it returned 4 times in 60 min; find the cause, then resume it in "
         "Slurm"),
        (record(by_hand=True, returns=4), "boot-2", "i-2", 30, ""),
    ],
)  # fmt: skip
def test_pending_requirements_of_a_node(
    record: DrainRecord, boot: str, instance: str, after_s: float, requirement: str
) -> None:
    situation = NodeSituation(
        inputs=DrainInputs(verdict=HEALTHY),
        node=replace(IDLE, instance_id=instance),
        boot_id=boot,
        limits=LIMITS,
        now=NOW + timedelta(seconds=after_s),
    )
    assert pending_requirement(situation, record) == requirement


@pytest.mark.parametrize(
    ("changes", "at"),
    [
        ([], 1000.0),
        ([1, 2, 3, 4], 1000.0),
        ([991, 992, 993, 994, 995], 995 + 60),
        ([990, 991, 992, 993, 994, 995], 995 + 120),
        ([-9000, -9000, -9000, -9000, -9000, 995], 1000.0),
    ],
)
def test_a_comment_that_changes_often_waits_longer_each_time(
    changes: list[float], at: float
) -> None:
    assert flap_damping.next_change_at(changes, LIMITS, 1000.0) == at

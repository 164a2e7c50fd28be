"""Who ended a drain of Holdfast: only evidence shows that it was a person."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from holdfast.errors import Unavailable
from holdfast.policy.ownership import PastDrain
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.drain.manual_resume import by_person
from tests.unit.holdfast.policy.node_examples import NOON, record

ME = SlurmName("worker-1")
RESTART = NOON + timedelta(seconds=60)
KNOWN = replace(record(), slurmctld_at=NOON - timedelta(days=1))


class Accounting:
    """What accounting shows; None: it does not answer."""

    def __init__(self, rows: list[PastDrain] | None) -> None:
        self.rows = rows
        self.queries: list[tuple[SlurmName, datetime]] = []

    def past_drains(self, name: SlurmName, since: datetime) -> list[PastDrain]:
        self.queries.append((name, since))
        if self.rows is None:
            raise Unavailable(["sacctmgr"], "no answer")
        return self.rows


def drain(end_s: int | None) -> PastDrain:
    end_at = None if end_s is None else NOON + timedelta(seconds=end_s)
    return PastDrain(start_at=NOON, end_at=end_at, user="root(0)", reason=KNOWN.reason)


def test_the_slurmctld_that_had_the_drain_loses_none_so_accounting_is_not_asked() -> None:
    accounting = Accounting(None)
    assert by_person(accounting, ME, KNOWN, NOON - timedelta(days=1))
    assert accounting.queries == []


@pytest.mark.parametrize(
    ("rows", "person"),
    [([drain(30)], True), ([drain(90)], False), ([drain(None)], False), ([], False), (None, False)],
    ids=["before the restart", "after it", "still drained", "no drain", "no answer"],
)
def test_after_a_restart_of_slurmctld_accounting_decides(
    rows: list[PastDrain] | None, person: bool
) -> None:
    accounting = Accounting(rows)
    assert by_person(accounting, ME, KNOWN, RESTART) is person
    assert accounting.queries == [(ME, NOON)]


def test_nobody_ended_a_drain_that_slurmctld_never_showed() -> None:
    unread = replace(KNOWN, at=None)
    assert not by_person(Accounting([drain(30)]), ME, unread, RESTART)
    assert not by_person(Accounting([drain(30)]), ME, unread, NOON - timedelta(days=1))

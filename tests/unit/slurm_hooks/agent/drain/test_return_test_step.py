"""A step while the node is tested before its return, or inspected."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import cast

import pytest

from holdfast.errors import Unavailable
from holdfast.policy.node_inputs import DrainInputs
from holdfast.policy.ownership import Undrained
from holdfast.policy.return_test import ReturnTestMode, ReturnTestResult
from holdfast.slurm.reservations import Reservation, SlurmMaintenance
from holdfast.vocabulary import Action
from slurm_hooks.active.reservation_text import Maker, Purpose, ReservationText
from slurm_hooks.agent.drain import record as records
from slurm_hooks.agent.drain.slurm_update import Step
from tests.unit.slurm_hooks.agent.drain.fake_slurm import (
    BOOT,
    ME,
    NEXT_BOOT,
    Bench,
    clean,
    fault,
)


def kept_by(
    bench: Bench, purpose: Purpose, *, host: str = "elsewhere", until: int = 1 << 40
) -> None:
    """The node is undrained in a reservation, as during a test."""
    maker = Maker(host=host, boot_id="x", pid=2**22 + 1, start=1)
    drained = bench.slurm.mine.reason
    keep = ReservationText(purpose=purpose, nodes=(ME,), maker=maker, until=until, drained=drained)
    stored = Reservation(name=keep.name, nodes=(ME,), comment=keep.comment)
    bench.slurm.kept = [stored]
    bench.slurm.undrain([ME])
    bench.slurm.writes.clear()


def with_return_test(bench: Bench) -> None:
    agent = replace(bench.config.agent, return_test=ReturnTestMode.REQUIRE)
    bench.config = replace(bench.config, agent=agent)
    bench.run(fault())
    bench.boot_id = NEXT_BOOT


def result_of_test(bench: Bench, verdict: str) -> ReturnTestResult:
    drained, _ = records.load(bench.path)
    assert drained is not None
    return ReturnTestResult(reason=drained.record.reason, check="host", verdict=verdict)


def test_with_a_return_test_the_step_requests_a_test_first(bench: Bench) -> None:
    with_return_test(bench)
    outcome = bench.run(clean())
    assert outcome.test_reason == bench.slurm.mine.reason
    assert bench.slurm.mine.drained_flag


def test_after_a_passed_test_the_reserved_node_returns_to_service(bench: Bench) -> None:
    with_return_test(bench)
    passed = replace(clean(), test_result=result_of_test(bench, "passed"))
    kept_by(bench, Purpose.RETURN_TEST)
    bench.slurm.in_use = 1  # the job's epilog is still running
    outcome = bench.run(passed)
    assert bench.slurm.kept == []
    assert not bench.slurm.mine.drained_flag
    assert not bench.path.exists()
    assert "host passed" in outcome.entries[-1].text


@pytest.mark.parametrize("verdict", ["failed", "error", None])
def test_otherwise_the_old_drain_is_set_again(bench: Bench, verdict: str | None) -> None:
    with_return_test(bench)
    before = bench.slurm.mine.reason
    case = replace(clean(), test_result=result_of_test(bench, verdict) if verdict else None)
    kept_by(bench, Purpose.RETURN_TEST)
    bench.run(case)
    assert bench.slurm.mine.reason == before
    assert bench.slurm.writes == ["drain worker-1", "unreserve"], "the drain comes first"
    drained, _ = records.load(bench.path)
    assert drained is not None
    assert drained.record.at == bench.slurm.mine.reason_at
    again = bench.run(case)
    assert again.slurm_status.action == "drain"


def test_a_reservation_that_a_restored_slurmctld_has_again_drains_nothing(bench: Bench) -> None:
    """The drain had ended: set again without a record, it would never end."""
    with_return_test(bench)
    kept_by(bench, Purpose.RETURN_TEST)
    again = bench.slurm.kept
    bench.run(replace(clean(), test_result=result_of_test(bench, "passed")))
    assert not bench.path.exists()
    assert bench.slurm.kept == []
    bench.slurm.kept = again
    bench.slurm.table[ME] = replace(bench.slurm.mine, reservation=again[0].name)
    bench.slurm.writes.clear()
    outcome = bench.run(clean())
    assert bench.slurm.kept == []
    assert bench.slurm.writes == ["unreserve"]
    assert not bench.slurm.mine.drained_flag
    assert not outcome.slurm_status.drained


def test_a_failed_test_is_in_the_comment_until_one_passes(bench: Bench) -> None:
    with_return_test(bench)
    bench.run(replace(clean(), test_result=result_of_test(bench, "failed")))
    assert "re-test host failed" in bench.slurm.mine.comment
    passed = replace(clean(), test_result=result_of_test(bench, "passed"))
    kept_by(bench, Purpose.RETURN_TEST)
    bench.run(passed)
    assert not bench.slurm.mine.drained_flag
    assert bench.slurm.mine.comment == ""


def test_a_fault_during_the_test_drains_at_once_and_keeps_the_record(bench: Bench) -> None:
    with_return_test(bench)
    kept_by(bench, Purpose.RETURN_TEST)
    bench.run(fault(Action.RESET_GPU, "XID48"))
    assert bench.slurm.mine.drained_flag
    assert bench.slurm.kept == []


def test_an_inspection_is_not_a_return_and_the_drain_stays_holdfasts(bench: Bench) -> None:
    bench.run(fault())
    before = bench.slurm.mine.reason
    kept_by(bench, Purpose.INSPECT)
    outcome = bench.run(fault())
    assert outcome.slurm_status.action == "test"
    assert not outcome.acknowledged
    assert bench.slurm.writes == []
    bench.slurm.drain([ME], before)  # the inspection ends
    bench.slurm.kept = []
    bench.slurm.now = datetime.now(timezone.utc).replace(microsecond=0)
    bench.slurm.drain([ME], before)
    bench.boot_id = NEXT_BOOT
    bench.run(clean())
    assert not bench.slurm.mine.drained_flag, "returned to service by the agent that had drained it"


def test_the_agent_cleans_up_after_a_killed_inspection(bench: Bench) -> None:
    bench.run(fault())
    before = bench.slurm.mine.reason
    kept_by(bench, Purpose.INSPECT, until=1)
    bench.run(fault())
    assert bench.slurm.mine.reason == before
    assert bench.slurm.kept == []


def test_a_job_that_does_not_end_keeps_the_reservation_and_the_drain(bench: Bench) -> None:
    with_return_test(bench)
    kept_by(bench, Purpose.RETURN_TEST)
    bench.slurm.in_use = 1 << 20
    with pytest.raises(Unavailable, match="does not end"):
        bench.run(clean())
    assert bench.slurm.mine.drained_flag
    assert bench.path.exists()


def test_a_persons_drain_that_an_undrain_ended_is_set_again(bench: Bench) -> None:
    """Accounting reported it (`slurm_hooks.agent.drain.undrain_audit`); the person's drain comes
    first."""
    drained, _ = records.load(bench.path)
    since = bench.slurm.now - timedelta(minutes=9)
    bench.records.save_return(
        Undrained(reason="r", since=since, looked_at=since, until=bench.slurm.now)
    )
    step = Step(cast("SlurmMaintenance", bench.slurm), ME, BOOT, bench.config, bench.records)
    outcome = step.run(DrainInputs(), drained, "ticket 9")
    assert bench.records.load_return() == (None, ""), "or a later agent sets it once more"
    assert bench.slurm.mine.reason == "ticket 9"
    assert bench.slurm.mine.drained_flag
    assert outcome.slurm_status.drained
    assert [entry.text for entry in outcome.entries if "ticket 9" in entry.text]
    assert step.run(DrainInputs(passes=9, clean_passes=9), None).undrained is None
    assert bench.slurm.mine.reason == "ticket 9"


def test_a_person_who_drained_it_meanwhile_keeps_the_later_reason(bench: Bench) -> None:
    bench.slurm._drain(ME, "ticket 10", "alice")
    step = Step(cast("SlurmMaintenance", bench.slurm), ME, BOOT, bench.config, bench.records)
    step.run(DrainInputs(), None, "ticket 9")
    assert bench.slurm.mine.reason == "ticket 10"

"""A slurmctld that restarted with an older state, and an agent that was killed: whose drain is it?"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest

from holdfast.policy.ownership import PastDrain
from holdfast.slurm.reservations import SlurmMaintenance
from holdfast.vocabulary import Action, SlurmName
from slurm_hooks.agent.drain.record import ENDED_KEPT
from slurm_hooks.agent.drain.slurm_update import Step
from tests.unit.slurm_hooks.agent.drain.fake_slurm import (
    BOOT,
    ME,
    NEXT_BOOT,
    Bench,
    clean,
    fault,
)


def test_a_slurmctld_that_lost_the_drain_resets_nothing(bench: Bench) -> None:
    bench.run(fault())
    reason = bench.slurm.mine.reason
    bench.slurm.restart(lose=True)
    outcome = bench.run(fault())
    assert not outcome.acknowledged
    assert bench.slurm.mine.drained_flag
    assert bench.slurm.mine.reason == reason
    assert "slurmctld lost the drain for XID79" in outcome.entries[0].text
    assert [entry.event for entry in outcome.entries] == ["drained"]
    bench.boot_id = NEXT_BOOT
    bench.run(clean())
    assert not bench.slurm.mine.drained_flag, "the required action counts from the first drain"


def test_a_resume_by_a_person_after_a_restart_of_slurmctld_counts(bench: Bench) -> None:
    """The drain was confirmed by the restarted slurmctld, so it was not lost in the restart."""
    bench.run(fault())
    bench.slurm.restart(lose=False)
    bench.run(fault())
    bench.slurm.undrain([ME])
    assert bench.run(fault()).acknowledged


@pytest.mark.parametrize(
    ("ended_s", "replaced", "acknowledged"),
    [(-3, False, True), (-3, True, False), (0, False, False), (2, False, False), (None, False, False)],
    ids=["before", "by accounting", "at the restart", "after it", "never"],
)  # fmt: skip
def test_if_slurmctld_also_restarted_accounting_decides(
    bench: Bench, ended_s: int | None, replaced: bool, acknowledged: bool
) -> None:
    bench.run(fault())
    node = bench.slurm.mine
    bench.slurm.restart(lose=True)
    assert node.reason_at is not None
    end_at = None if ended_s is None else bench.slurm.started + timedelta(seconds=ended_s)
    bench.slurm.events = [
        PastDrain(
            start_at=node.reason_at, end_at=end_at, user="root(0)", reason=node.reason, replaced=replaced
        )
    ]  # fmt: skip
    assert bench.run(fault()).acknowledged is acknowledged
    assert bench.slurm.mine.drained_flag is not acknowledged


def test_a_lost_drain_for_a_cleared_fault_is_not_set_again(bench: Bench) -> None:
    bench.run(fault())
    bench.slurm.restart(lose=True)
    bench.boot_id = NEXT_BOOT
    outcome = bench.run(clean())
    assert not outcome.acknowledged
    assert not bench.slurm.mine.drained_flag
    assert not bench.path.exists()


def test_a_lost_drain_that_still_requires_an_action_is_set_again(bench: Bench) -> None:
    bench.run(fault(action=Action.REPLACE, code="ROW_REMAP_FAILED"))
    bench.slurm.restart(lose=True)
    bench.boot_id = NEXT_BOOT
    bench.run(clean())
    assert bench.slurm.mine.drained_flag


def test_a_lost_drain_over_the_budget_waits(bench: Bench) -> None:
    bench.run(fault())
    bench.slurm.restart(lose=True)
    for name in ("worker-0", "worker-2"):
        bench.slurm._drain(name, "holdfast:XID79: theirs boot=x", "root")
    outcome = bench.run(fault())
    assert outcome.slurm_status.action == "over-budget"
    assert not bench.slurm.mine.drained_flag
    bench.slurm.undrain([SlurmName("worker-0"), SlurmName("worker-2")])
    bench.run(fault())
    assert bench.slurm.mine.drained_flag


def test_a_drain_that_slurmctld_restored_is_still_holdfasts(bench: Bench) -> None:
    """Its older state is from before the agent's undrain."""
    bench.run(fault())
    drained = bench.slurm.mine
    bench.boot_id = NEXT_BOOT
    bench.run(clean())
    assert not bench.slurm.mine.drained_flag
    bench.slurm.restart(lose=False)
    bench.slurm.table[ME] = drained
    bench.run(clean())
    assert not bench.slurm.mine.drained_flag
    bench.slurm.table[ME] = replace(drained, reason_user="alice")
    bench.run(clean())
    assert bench.slurm.mine.drained_flag


def test_after_a_step_without_result_the_records_are_read(bench: Bench) -> None:
    bench.run(fault())
    step = Step(cast("SlurmMaintenance", bench.slurm), ME, NEXT_BOOT, bench.config, bench.records)
    outcome = step.run(clean(), None, reload=True)
    assert not bench.slurm.mine.drained_flag
    assert outcome.undrained is not None
    assert len(outcome.ended) == 1
    bench.slurm._drain(ME, "ticket 9", "alice")
    again = step.run(clean(), None, reload=True)
    assert (again.undrained, again.ended) == (outcome.undrained, outcome.ended)


def test_an_agent_killed_before_its_second_drain_still_owns_the_first(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new record is on the disk, and slurmctld still has the old drain."""
    bench.run(fault(Action.REBOOT, "XID64"))
    reason = bench.slurm.mine.reason

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(bench.slurm, "drain", killed)
        with pytest.raises(KeyboardInterrupt):
            bench.run(fault(Action.REPLACE, "ROW_REMAP_FAILED"))
    assert bench.slurm.mine.reason == reason
    bench.boot_id = NEXT_BOOT
    bench.run(clean())
    assert not bench.slurm.mine.drained_flag


def test_the_step_does_not_read_the_disk(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state folder that does not answer must not stop a drain or a return (rule 12)."""

    def hangs(*_: object) -> None:
        pytest.fail("the disk was read")

    monkeypatch.setattr("holdfast.adapters.durable_file.DurableFile.load", hangs)
    step = Step(cast("SlurmMaintenance", bench.slurm), ME, BOOT, bench.config, bench.records)
    outcome = step.run(fault(), None)
    assert bench.slurm.mine.drained_flag
    step = Step(cast("SlurmMaintenance", bench.slurm), ME, NEXT_BOOT, bench.config, bench.records)
    outcome = step.run(clean(), outcome.drained)
    assert not bench.slurm.mine.drained_flag
    assert len(outcome.ended) == 1


def test_the_last_drains_that_ended_are_kept(bench: Bench) -> None:
    for number in range(ENDED_KEPT + 2):
        bench.run(fault(code=f"XID{number}"))
        bench.boot_id = f"{number:08d}-boot"
        bench.run(clean())
    kept = [drained.record.code for drained in bench.records.load_ended()]
    assert kept == [f"XID{number}" for number in range(2, ENDED_KEPT + 2)]

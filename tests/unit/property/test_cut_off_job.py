"""Never two writers: no history of cuts lets an old attempt write after a new one has started.

A hundred thousand: ``scripts/bench two-writers``.
"""

from __future__ import annotations

import pytest

from holdfast.policy.job import fence
from slurm_hooks.job.fence import fence as launcher
from tests.unit.property import cut_off_job


@pytest.mark.parametrize("seed", range(4))
def test_an_old_attempt_never_writes_after_a_new_one_has_started(seed: int) -> None:
    assert cut_off_job.run_histories(seed, 100) > 10_000


def test_the_histories_have_restarts_and_waits() -> None:
    worlds = [cut_off_job.World(seed) for seed in range(50)]
    for world in worlds:
        world.run()
    assert sum(world.restarts for world in worlds) > 50
    assert sum(world.waits for world in worlds) > 30


def test_without_the_fence_many_histories_have_two_writers() -> None:
    assert cut_off_job.overlaps_without(0, 100) > 20


def _fails(count: int = 400) -> None:
    with pytest.raises(cut_off_job.Violation):
        cut_off_job.run_histories(0, count)


def test_the_simulation_notices_tasks_that_go_on_without_a_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fence, "LEASE_S", 1e9)
    _fails()


def test_the_simulation_notices_an_attempt_that_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(launcher, "wait_s", lambda _: 0.0)
    _fails()

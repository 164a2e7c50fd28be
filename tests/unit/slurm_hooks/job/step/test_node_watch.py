"""A job that prints is looked at less often once it has run for two minutes."""

from __future__ import annotations

import time

import pytest

from slurm_hooks.job.step import node_watch


@pytest.mark.parametrize(
    ("running_s", "silent_s", "skips"),
    [(0.0, 0.0, 0), (130.0, 0.0, 11), (130.0, 60.0, 0), (100.0, 0.0, 0)],
)
def test_looks_are_skipped_only_while_a_settled_job_prints(
    running_s: float, silent_s: float, skips: int
) -> None:
    begin = time.monotonic() + running_s
    looks = node_watch.Watch(lambda: "", 5.0, lambda: None, lambda: begin - silent_s)
    skipped = 0
    while skipped < 20 and looks.may_skip(begin):
        skipped += 1
        looks.skipped += 1
    looks.stop()
    assert skipped == skips


def test_before_its_machine_is_stopped_a_job_is_looked_at_each_time() -> None:
    skip = [node_watch.SKIP]
    begin = time.monotonic() + 130
    looks = node_watch.Watch(lambda: "", 5.0, lambda: None, lambda: begin, lambda: skip[0])
    assert looks.may_skip(begin)
    skip[0] = 0
    assert not looks.may_skip(begin)
    looks.stop()

"""A job that becomes slower than it was."""

from __future__ import annotations

import random

import pytest

from slurm_hooks.job.progress.slow_watch import SlowWatch, text
from slurm_hooks.job.progress.step_rate import Slowdown, StepRate, step_in

MEGATRON = b" iteration    18230/  500000 | consumed samples: 1 | elapsed time per iteration (ms): 5123.4\n"
TQDM = b" 12%|##        | 120/1000 [01:00<09:00,  2.00it/s]\r"


def run(rates: list[float], *, rate: StepRate | None = None) -> list[Slowdown]:
    """One minute at each rate (steps per second), with a line every ten seconds."""
    rate = rate or StepRate()
    found, step, now = [], 0.0, 0.0
    for one in rates:
        for _ in range(6):
            now, step = now + 10.0, step + 10.0 * one
            found.append(rate.note(step, now))
    return [slowdown for slowdown in found if slowdown]


def test_a_lasting_slowdown_is_told_once() -> None:
    (found,) = run([1.0] * 30 + [0.7] * 200)
    assert (found.before, found.now) == pytest.approx((1.0, 0.7))
    assert str(found) == "0.7 steps/s for 5 minutes, 1 before"


def test_a_second_slowdown_is_told_again() -> None:
    assert [round(s.now, 2) for s in run([1.0] * 30 + [0.7] * 40 + [0.4] * 40)] == [0.7, 0.4]


@pytest.mark.parametrize(
    "rates",
    [
        [1.0] * 300,
        [1.0] * 30 + [0.85] * 100,
        ([1.0] * 8 + [0.2]) * 20,
        [1.0] * 30 + [0.3] * 4 + [1.0] * 50,
        [0.05, 0.1] + [1.0] * 100,
        [0.3] * 50 + [1.0] * 100,
        [1.0] * 8 + [0.1] * 9,
    ],
    ids=["steady", "a little", "evaluations", "four minutes", "start", "faster", "too short"],
)
def test_what_is_no_slowdown(rates: list[float]) -> None:
    assert run(rates) == []


def test_noise_is_no_slowdown() -> None:
    noise = random.Random(7)
    for _ in range(200):
        assert run([max(0.1, noise.gauss(1.0, 0.12)) for _ in range(120)]) == []


def test_steps_that_begin_again_are_no_slowdown() -> None:
    rate = StepRate()
    for _ in range(10):
        assert run([1.0] * 30, rate=rate) == []


@pytest.mark.parametrize(
    ("data", "step"),
    [
        (MEGATRON, 18230.0),
        (b"noise\nstep 7 loss 1.25\nsaved\n", 7.0),
        (TQDM, 120.0),
        (b"{'loss': 1.2, 'grad_norm': 3.1, 'epoch': 0.25}\n", 0.25),
        (b"Epoch 3/10\n", None),
        (b"successfully saved checkpoint from iteration 12000 to /c\n", None),
        (b"\xff\x00 nothing here\n", None),
        (b"", None),
        (b"step 1\n" + b"x\n" * 20, None),
    ],
)
def test_the_step_at_the_end_of_an_output(data: bytes, step: float | None) -> None:
    assert step_in(data) == step


def test_each_output_has_its_own_rate_and_only_some_of_it_is_looked_at() -> None:
    now = [0.0]
    watch = SlowWatch(lambda: now[0])
    for second in range(60 * 60):
        now[0] += 1.0
        steps = second if second < 1800 else 1800 + (second - 1800) // 2
        watch.hear("stdout", b"step %d\n" % steps)
        watch.hear("other", b"step 5\n")
    found = watch.take()
    assert found is not None
    assert found.now == pytest.approx(0.5, rel=0.05)
    assert watch.take() is None


def test_what_is_said() -> None:
    slow = Slowdown(before=2.0, now=1.0)
    assert text(slow, ["n2 (THERMAL)", "n2 (THERMAL)"]).endswith("; degraded: n2 (THERMAL)")
    assert text(slow, []).endswith("; no node is known to be degraded")

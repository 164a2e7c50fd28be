"""What the probes of Kubernetes are told."""

from __future__ import annotations

from k8s_bridge.endpoints.health import Health
from k8s_bridge.names import KUBERNETES, SLURM


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_side_that_is_silent_is_named_with_the_time_and_the_cause() -> None:
    clock = Clock()
    health = Health(180, clock)
    health.seen(SLURM)
    health.seen(KUBERNETES)
    assert health.readyz().ok
    health.silent(SLURM, "scontrol: no answer in 10 s")
    clock.now += 9
    assert health.readyz().ok, "one missed answer is no silence"
    clock.now += 33
    ok, text = health.readyz()
    assert not ok
    assert text.splitlines() == [
        "slurm: silent for 42 s: scontrol: no answer in 10 s",
        "kubernetes: ok: answered 42.0 s ago",
    ]
    health.seen(SLURM)
    assert health.readyz().ok


def test_before_the_first_answer_it_is_not_ready_and_yet_alive() -> None:
    clock = Clock()
    health = Health(180, clock)
    health.silent(KUBERNETES, "GET /api/v1/nodes: 403:\x1b[31m nodes is forbidden")
    clock.now += 5
    ok, text = health.readyz()
    assert not ok
    assert "slurm: silent since the start 5 s ago" in text
    assert "kubernetes: silent since the start 5 s ago: GET /api/v1/nodes: 403: [31m" in text
    assert health.healthz().ok


def test_a_loop_that_hangs_is_not_healthy_and_each_write_counts_as_progress() -> None:
    clock = Clock()
    health = Health(180, clock)
    clock.now += 179
    health.alive()
    clock.now += 179
    assert health.healthz().ok
    clock.now += 2
    ok, text = health.healthz()
    assert not ok
    assert text == "stalled: no progress for 181 s (limit 180 s)\n"

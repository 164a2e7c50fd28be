"""Earlier attempts as the journal tells them: what counts against the job and its checkpoints."""

from __future__ import annotations

import pytest

from slurm_hooks.job.past_attempts import (
    evidence_on_checkpoints,
    excluded_nodes,
    hangs_in_a_row,
    past,
)


def _event(name: str, t: float, **about: object) -> dict[str, object]:
    return {"t": t, "event": name, **about}


STARTED = [_event("attempt", 1.0, attempt=1), _event("step_start", 2.0)]


def test_an_attempt_that_slurm_ended_is_no_failure_also_if_its_launcher_was_killed() -> None:
    """After SIGTERM and KillWait Slurm kills the launcher, which then records no end of the step."""
    (preempted,) = past([*STARTED, _event("terminated", 3.0)])
    assert (preempted.terminated, preempted.failed, preempted.launcher_lost) == (True, False, False)
    (killed,) = past(STARTED)
    assert (killed.terminated, killed.launcher_lost) == (False, True)


def test_a_launcher_that_died_with_its_node_is_no_evidence_against_the_checkpoint() -> None:
    chosen = {"path": "/c/step_9.pt", "step": 9}
    lost = [
        _event("attempt", 1.0),
        _event("checkpoint", 1.5, chosen=chosen),
        _event("step_start", 2.0),
    ]
    history = past([*lost, *lost, *lost])
    assert evidence_on_checkpoints(history).bad == ()
    failed = [*lost, _event("step_end", 3.0, exit_code=1)]
    assert evidence_on_checkpoints(past([*failed, *failed])).bad


@pytest.mark.parametrize("kind", ["infrastructure", "node", "outage"])
def test_infrastructure_is_no_evidence_against_the_checkpoint(kind: str) -> None:
    chosen = {"path": "/c/step_9.pt", "step": 9}
    failed = [
        _event("attempt", 1.0),
        _event("checkpoint", 1.5, chosen=chosen),
        _event("step_start", 2.0),
        _event("step_end", 3.0, exit_code=1),
        _event("evidence", 4.0, kind=kind),
    ]
    assert evidence_on_checkpoints(past([*failed, *failed, *failed])).bad == ()


def test_hangs_in_a_row_end_with_another_failure_and_with_progress() -> None:
    def ended(fingerprint: str, *, progressed: bool) -> list[dict[str, object]]:
        evidence = _event("evidence", 4.0, fingerprint=fingerprint, progressed=progressed)
        return [*STARTED, _event("step_end", 3.0, exit_code=1), evidence]

    hang, saved = ended("HANG", progressed=False), ended("HANG", progressed=True)
    assert hangs_in_a_row(past([])) == 0
    assert hangs_in_a_row(past([*hang, *hang])) == 2
    assert hangs_in_a_row(past([*hang, *saved, *hang])) == 1
    assert hangs_in_a_row(past([*hang, *ended("exit:1", progressed=False)])) == 0


def test_what_a_person_released_or_succeeded_is_settled() -> None:
    ended = [*STARTED, _event("step_end", 3.0, exit_code=1)]
    assert past([*ended, _event("requeue", 4.0, held=True)])[0].settled
    assert past([*STARTED, _event("finish", 4.0, succeeded=True)])[0].settled
    assert not past([*ended, _event("requeue", 4.0, held=False)])[0].settled
    assert not past([*STARTED, _event("finish", 4.0, exit_code=0)])[0].settled


def test_a_command_that_was_skipped_changes_no_earlier_attempt() -> None:
    ended = [*STARTED, _event("step_end", 3.0, exit_code=1)]
    assert past([*ended, _event("skipped", 99.0)])[0].ended_at == 3.0


def test_the_nodes_that_holdfast_excluded_and_when_last() -> None:
    found = excluded_nodes(
        [
            _event("requeue", 10.0, excluded=["worker-1"]),
            _event("requeue", 20.0, excluded=["worker-1", "worker-2"]),
            _event("requeue", 30.0, excluded="garbage"),
            _event("requeue", 40.0),
        ]
    )
    assert {node: at.timestamp() for node, at in found.items()} == {"worker-1": 20, "worker-2": 20}

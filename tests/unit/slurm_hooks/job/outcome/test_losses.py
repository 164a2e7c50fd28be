"""What the job's log reports as lost after a failure."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_hooks.job.checkpoints.candidate import Checkpoint
from slurm_hooks.job.environment import JobContext
from slurm_hooks.job.outcome import losses
from slurm_hooks.job.past_attempts import JournalAttempt
from slurm_hooks.job.step.run_step import StepEnd

END = StepEnd(status=1, started_at=1000.0, ended_at=8200.0)
SAVED = Checkpoint(path=Path("/c/step_40.pt"), framework="torch", step=40, changed_at=4600.0)


@pytest.mark.parametrize(
    ("newest", "gpus", "expected"),
    [
        (SAVED, 16, "work lost: 1:00:00, 16.00 GPU hours since the last checkpoint (step 40)"),
        (None, 0, "work lost: 2:00:00 since the start: there is no checkpoint"),
        # an older checkpoint, from before this step; and a file server whose clock is ahead
        (replace(SAVED, changed_at=5.0), 8, "work lost: 2:00:00, 16.00 GPU hours since"),
        (replace(SAVED, changed_at=9e9, step=None), 8, "work lost: 0:00:00, 0.00 GPU hours since"),
    ],
)
def test_the_work_since_the_last_checkpoint_is_lost(
    newest: Checkpoint | None, gpus: int, expected: str
) -> None:
    text = losses.loss_text(losses.lost_s(END, newest), gpus, newest)
    assert text.startswith(expected)


def _past(resumed_path: str = "", *, started: bool = True) -> JournalAttempt:
    return JournalAttempt(
        number=1,
        started=started,
        ended=True,
        exit_code=1,
        terminated=False,
        resumed_path=resumed_path,
        resumed_step=None,
        fingerprint="",
        progressed=None,
        node_fault=False,
        suspects=(),
        ended_at=0.0,
    )


def test_attempts_without_a_checkpoint_are_counted() -> None:
    count = losses.attempts_without_checkpoint
    assert count([], None) == 1
    assert count([_past(), _past(started=False)], None) == 2
    assert count([_past(), _past("/c/1")], None) == 0
    assert count([_past(), _past()], SAVED) == 0


def test_a_truncated_log_is_recognised(tmp_path: Path) -> None:
    log = tmp_path / "slurm-7.out"
    log.write_text("hello\n")
    with log.open("ab") as stream:
        assert losses.is_output_overwritten(stream.fileno())
        stream.write(b"holdfast: attempt 1 of job 7 starts from the beginning\n")
        stream.flush()
        assert not losses.is_output_overwritten(stream.fileno())
    read_end, write_end = os.pipe()
    assert not losses.is_output_overwritten(write_end)
    os.close(read_end)
    os.close(write_end)


def test_the_number_of_gpus_comes_from_slurms_environment() -> None:
    environ = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2"}
    assert JobContext.of(environ).gpus == 0
    assert JobContext.of({**environ, "SLURM_GPUS_ON_NODE": "8"}).gpus == 16
    assert JobContext.of({**environ, "SLURM_GPUS_ON_NODE": "x"}).gpus == 0

"""``holdfast run`` says what is wrong in one line, and never stands in a job's way."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from slurm_hooks.job.launcher import command

JOB = {
    "SLURM_JOB_ID": "42",
    "SLURM_JOB_NODELIST": "worker-[0-1]",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_JOB_START_TIME": "1795229479",
    "SLURMD_NODENAME": "worker-0",
}
PYTHON = sys.executable


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment of a batch script on a node without Slurm's tools and without an agent."""
    for name in [name for name in os.environ if name.startswith(("SLURM", "HOLDFAST"))]:
        monkeypatch.delenv(name)
    for name, value in JOB.items():
        monkeypatch.setenv(name, value)
    config = tmp_path / "holdfast.yaml"
    config.write_text(
        f"paths: {{run: {tmp_path}/run}}\nslurm: {{bin: {tmp_path}/none}}\n"
        "job: {slurm_patience_s: 0, evidence_wait_s: 0, max_same_failure: 2}\n"
    )
    monkeypatch.setenv("HOLDFAST_CONFIG", str(config))
    return tmp_path


def _events(folder: Path) -> list[str]:
    lines = (folder / ".holdfast" / "job-42.jsonl").read_text().splitlines()
    return [json.loads(line)["event"] for line in lines]


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ([], "no command; add it after --"),
        (["--checkpoints", "c", "--"], "no command; add it after --"),
        (["--checkpoints", "c", "--spares", "1", "--", "true"], "not available yet"),
        (["--checkpoints", "c", "--", "no-such-command-here"], "no such command on this node"),
        (["--", "true"], "no checkpoint folder; add --checkpoints DIR"),
        (["--checkpoints", "", "--", "true"], "is a variable of the script empty?"),
        (["--checkpoints", "c", "--", "A=1", "true"], "put env before"),
        (["--checkpoints", "c", "--", __file__], "not executable; make it so"),
    ],
)
def test_wrong_use_gets_one_line_and_a_remedy(
    argv: list[str], told: str, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(argv) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_a_misspelt_option_is_taken_for_no_other(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        command.main(["--checkpoint", "c", "--", "true"])
    assert "unrecognized arguments: --checkpoint" in capsys.readouterr().err


def test_outside_of_a_job(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID")
    assert command.main(["--checkpoints", "c", "--", "true"]) == 2
    assert "sbatch --requeue SCRIPT" in capsys.readouterr().err


def test_a_file_is_no_checkpoint_folder(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (job / "file").touch()
    assert command.main(["--checkpoints", str(job / "file"), "--", "true"]) == 2
    assert "not a folder" in capsys.readouterr().err


def test_a_good_command_ends_good_even_without_slurm(
    job: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = job / "checkpoints"
    code = "import os; print(os.environ['HOLDFAST_ATTEMPT'], os.environ['HOLDFAST_JOURNAL'])"
    assert command.main(["--checkpoints", str(folder), "--", PYTHON, "-c", code]) == 0
    told = capfd.readouterr()
    assert told.out == f"1 {folder}/.holdfast/job-42.jsonl\n"
    assert "attempt 1 of job 42 starts from the beginning: no checkpoint yet" in told.err
    assert "done: exit code 0: Slurm could not be asked for the job's state" in told.err
    assert _events(folder) == ["attempt", "checkpoint", "step_start", "step_end", "finish"]


def test_exit_code_93_is_the_last_word(job: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = job / "checkpoints"
    argv = [PYTHON, "-c", "raise SystemExit(93)"]
    assert command.main(["--checkpoints", str(folder), "--", *argv]) == 93
    assert _events(folder).count("step_start") == 1
    assert "no further attempt" in capfd.readouterr().err


def test_a_failure_is_tried_again_here_and_then_given_to_a_person(
    job: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = job / "checkpoints"
    argv = [PYTHON, "-c", "raise SystemExit(7)"]
    assert command.main(["--checkpoints", str(folder), "--", *argv]) == 7
    told = capfd.readouterr().err
    assert "decision: restart: " in told
    assert "decision: hold: the same failure 2 times without a new checkpoint" in told
    assert "hold not taken by Slurm" in told
    assert _events(folder).count("step_start") == 2
    assert _events(folder)[-1] == "finish"


def test_no_attempt_starts_beside_what_the_last_one_left_behind(
    job: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ranks without srun, or the srun of a script that gave up: two would write the checkpoints."""
    script = job / "train.sh"
    script.write_text(
        f'if [ "$HOLDFAST_ATTEMPT" = 1 ]; then\n'
        f"  setsid sleep 60 & echo $! > {job}/left; exit 7\n"
        f'fi\n[ -z "$(tr -d "\\0" 2>/dev/null </proc/$(cat {job}/left)/cmdline)" ]\n'
    )
    assert command.main(["--checkpoints", str(job / "c"), "--", "sh", str(script)]) == 0
    left = (job / "left").read_text().strip()
    assert f"ending what attempt 1 left behind here: pid {left}\n" in capfd.readouterr().err


def test_a_users_error_is_named(job: Path, capfd: pytest.CaptureFixture[str]) -> None:
    argv = [PYTHON, "-c", "int(None)"]
    command.main(["--checkpoints", str(job / "c"), "--", *argv])
    assert "holdfast: cause: TypeError: int() argument" in capfd.readouterr().err


def test_a_broken_configuration_costs_only_its_settings(
    job: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (job / "holdfast.yaml").write_text("job: {poll_s: fast}\n")
    assert command.main(["--checkpoints", str(job / "c"), "--", "true"]) == 0
    told = capfd.readouterr().err
    assert "holdfast.yaml:1: job.poll_s" in told
    assert "going on with the defaults" in told


def test_switched_off_the_command_runs_and_nothing_is_restarted(
    job: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (job / "off").mkdir()
    (job / "off" / "all").touch()
    argv = [PYTHON, "-c", "raise SystemExit(7)"]
    assert command.main(["--checkpoints", str(job / "c"), "--", *argv]) == 7
    assert "Holdfast is switched off" in capfd.readouterr().err
    assert _events(job / "c").count("step_start") == 1


def test_a_journal_that_cannot_be_written_stops_no_training(
    job: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = job / "c"
    folder.mkdir()
    (folder / ".holdfast").write_text("in the way")
    assert command.main(["--checkpoints", str(folder), "--", "true"]) == 0
    assert "attempts are not counted until it works" in capfd.readouterr().err

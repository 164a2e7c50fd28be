"""``holdfast run``: usage errors take one line, and a problem of Holdfast never stops a job."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from slurm_hooks.job.launcher import command
from slurm_hooks.job.launcher.inputs import Job
from slurm_hooks.job.outcome import losses
from slurm_hooks.job.resume import search, storage_wait

JOB = {
    "SLURM_JOB_ID": "42",
    "SLURM_JOB_NODELIST": "worker-[0-1]",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_JOB_START_TIME": "1795229479",
    "SLURMD_NODENAME": "worker-0",
}
PYTHON = sys.executable
RECORDED = Path(__file__).parents[4] / "data" / "checkpoints"


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
    ("argv", "message"),
    [
        ([], "no command; add it after --"),
        (["--checkpoints", "c", "--"], "no command; add it after --"),
        (["--checkpoints", "c", "--", "no-such-command-here"], "command not found on this node"),
        (["--", "true"], "no checkpoint folder; add --checkpoints DIR"),
        (["--checkpoints", "", "--", "true"], "is a variable of the script unset?"),
        (["--checkpoints", "c", "--", "A=1", "true"], "put env before"),
        (["--checkpoints", "c", "--hang-timeout", "19", "--", "true"], "give 20 to 604800 seconds"),
        (["--checkpoints", "c", "--hang-timeout", "5m", "--", "true"], "give 20 to 604800 seconds"),
        (
            ["--checkpoints", "c", "--checkpoint-signal", "KILL", "--", "true"],
            "not a signal that a",
        ),
        (
            ["--checkpoints", "c", "--checkpoint-signal", "SIGX", "--", "true"],
            "not a signal that a",
        ),
        (["--checkpoints", "c", "--path-map", "a:b", "--", "true"], "give two absolute paths"),
        (["--checkpoints", "c", "--", "sh", "-c", "x {resume}"], "use $HOLDFAST_RESUME_FROM"),
        (["--checkpoints", "c", "--", __file__], "not executable; run chmod +x"),
    ],
)
def test_a_usage_error_is_one_line_with_a_remedy(
    argv: list[str], message: str, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(argv) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_an_abbreviated_option_is_refused(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        command.main(["--checkpoint", "c", "--", "true"])
    assert "unrecognized arguments: --checkpoint" in capsys.readouterr().err


def test_outside_of_a_job(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID")
    assert command.main(["--checkpoints", "c", "--", "true"]) == 2
    assert "sbatch --requeue SCRIPT" in capsys.readouterr().err


def test_a_file_is_not_a_checkpoint_folder(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (job / "file").touch()
    assert command.main(["--checkpoints", str(job / "file"), "--", "true"]) == 2
    assert "not a folder" in capsys.readouterr().err


def test_a_checkpoint_folder_without_permission_is_a_usage_error(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As ``--checkpoints /root/ck`` for a user; the tests may run as root, which can read anything."""

    def refused(*_: object, **__: object) -> object:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", refused)
        assert command.main(["--checkpoints", "/root/ck", "--", "true"]) == 2
    error = capsys.readouterr().err
    assert "--checkpoints /root/ck: Permission denied; give a folder that you can write" in error
    assert error.count("\n") == 1
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr("shutil.which", lambda _: "/bin/true")
    assert command.main(["--checkpoints", str(job / "new" / "ck"), "--", "true"]) == 2
    assert f"does not exist, and you cannot create it in {job}\n" in capsys.readouterr().err


def test_a_path_that_cannot_exist_is_a_usage_error(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (job / "file").touch()
    for path in (job / "file" / "ck", job / ("x" * 300)):
        assert command.main(["--checkpoints", str(path), "--", "true"]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_a_command_succeeds_even_without_slurm(
    job: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = job / "checkpoints"
    code = "import os; print(os.environ['HOLDFAST_ATTEMPT'], os.environ['HOLDFAST_JOURNAL'])"
    assert command.main(["--checkpoints", str(folder), "--", PYTHON, "-c", code]) == 0
    message = capfd.readouterr()
    assert message.out == f"1 {folder}/.holdfast/job-42.jsonl\n"
    assert "attempt 1 of job 42 starts from the beginning: no checkpoint yet" in message.err
    assert "done: exit code 0: job state not known: slurmctld does not answer" in message.err
    assert _events(folder) == ["attempt", "checkpoint", "step_start", "step_end", "finish"]


def test_exit_code_93_prevents_a_restart(job: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = job / "checkpoints"
    argv = [PYTHON, "-c", "raise SystemExit(93)"]
    assert command.main(["--checkpoints", str(folder), "--", *argv]) == 93
    assert _events(folder).count("step_start") == 1
    assert "no further attempt" in capfd.readouterr().err


def test_a_repeated_failure_is_restarted_and_then_held(
    job: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(losses, "MIN_REPORTED_S", 0.0)
    folder = job / "checkpoints"
    argv = [PYTHON, "-c", "raise SystemExit(7)"]
    assert command.main(["--checkpoints", str(folder), "--", *argv]) == 7
    message = capfd.readouterr().err
    assert "decision: restart: " in message
    assert "decision: hold: the same failure 2 times without a new checkpoint" in message
    assert "no answer to the hold" in message
    assert message.count("work lost: 0:00:0") == 2
    assert f"no checkpoint after 2 attempts: does the command save to {folder}?" in message
    assert _events(folder).count("step_start") == 2
    assert _events(folder)[-1] == "finish"


def test_processes_left_over_from_an_attempt_are_ended_before_the_next(
    job: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ranks without srun, or the srun of a script that has exited, would write the same checkpoints."""
    script = job / "train.sh"
    script.write_text(
        f'if [ "$HOLDFAST_ATTEMPT" = 1 ]; then\n'
        f"  setsid sleep 60 & echo $! > {job}/left; exit 7\n"
        f'fi\n[ -z "$(tr -d "\\0" 2>/dev/null </proc/$(cat {job}/left)/cmdline)" ]\n'
    )
    assert command.main(["--checkpoints", str(job / "c"), "--", "sh", str(script)]) == 0
    left = (job / "left").read_text().strip()
    assert f"ending processes left over from attempt 1: pid {left}\n" in capfd.readouterr().err


def test_the_cause_of_a_user_error_is_logged(job: Path, capfd: pytest.CaptureFixture[str]) -> None:
    argv = [PYTHON, "-c", "int(None)"]
    command.main(["--checkpoints", str(job / "c"), "--", *argv])
    assert "holdfast: cause: TypeError: int() argument" in capfd.readouterr().err


@pytest.mark.parametrize(("restarts", "warned"), [("0", False), ("1", True)])
def test_overwritten_output_is_reported_once(
    restarts: str,
    warned: bool,
    job: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SLURM_RESTART_COUNT", restarts)
    command.main(["--checkpoints", str(job / "c"), "--", "sh", "-c", "exit 7"])
    log = capfd.readouterr().err
    assert log.count("submit with sbatch --open-mode=append") == warned
    assert log.count("attempt 2 of job 42") == 1


def test_a_program_with_a_missing_module_fails_at_once(
    job: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    argv = [PYTHON, "-c", "import no_such_module_here"]
    assert command.main(["--checkpoints", str(job / "c"), "--", *argv]) == 1
    log = capfd.readouterr().err
    assert (
        "holdfast: cause: ModuleNotFoundError: No module named 'no_such_module_here' (U08)" in log
    )
    assert "holdfast: decision: fail: user error: " in log
    assert _events(job / "c").count("step_start") == 1
    assert _events(job / "c")[-1] == "finish"


def test_an_invalid_configuration_is_replaced_by_the_defaults(
    job: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (job / "holdfast.yaml").write_text("job: {poll_s: fast}\n")
    assert command.main(["--checkpoints", str(job / "c"), "--", "true"]) == 0
    message = capfd.readouterr().err
    assert "holdfast.yaml:1: job.poll_s" in message
    assert "using the defaults" in message


def test_with_the_kill_switch_on_the_command_runs_and_is_not_restarted(
    job: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (job / "off").mkdir()
    (job / "off" / "all").touch()
    argv = [PYTHON, "-c", "raise SystemExit(7)"]
    assert command.main(["--checkpoints", str(job / "c"), "--", *argv]) == 7
    assert "Holdfast is switched off" in capfd.readouterr().err
    assert _events(job / "c").count("step_start") == 1


def test_a_journal_that_cannot_be_written_does_not_stop_the_command(
    job: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = job / "c"
    folder.mkdir()
    (folder / ".holdfast").write_text("in the way")
    assert command.main(["--checkpoints", str(folder), "--", "true"]) == 0
    assert "job.max_attempts does not apply" in capfd.readouterr().err


def _poisoned(job: Path, first_bad: int, program: str) -> list[str]:
    """Arguments for a job with eight hourly checkpoints, whose program prints the step it resumes from
    and fails from ``first_bad`` on."""
    folder = job / "checkpoints"
    folder.mkdir()
    for step in range(1, 9):
        target = folder / f"step_{step}.pt"
        shutil.copy(RECORDED / "checkpoint_epoch_2.pt", target)
        os.utime(target, (3600.0 * step, 3600.0 * step))
    script = job / "train.py"
    script.write_text(
        "import sys, time\nstep = int(sys.argv[2].split('_')[-1][0])\n"
        f"print(step, flush=True)\nif step >= {first_bad}:\n    sys.exit(1)\n{program}\n"
    )
    argv = ["--", PYTHON, str(script), "--resume", "{resume}"]
    return ["--checkpoints", str(folder), *argv]


def test_a_poisoned_checkpoint_is_found_without_a_change_of_the_program(
    job: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command.main(_poisoned(job, 4, "")) == 0
    message = capfd.readouterr()
    assert message.out.split() == ["8", "8", "4", "2"]
    assert "decision: restart: the checkpoint may be bad; next: step_4.pt" in message.err


def test_an_attempt_that_works_makes_room_for_a_newer_checkpoint(
    job: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It would run for ever; hours of work are between it and the newer ones."""
    monkeypatch.setattr(search, "_MIN_PROOF_S", 0.5)
    config = job / "holdfast.yaml"
    config.write_text(config.read_text().replace("job: {", "job: {poll_s: 0.5, end_grace_s: 0, "))
    assert command.main(_poisoned(job, 6, "if step < 5:\n    time.sleep(600)")) == 0
    message = capfd.readouterr()
    assert message.out.split() == ["8", "8", "4", "6", "5"]
    assert "step ended: step_4.pt works; 3 newer checkpoints are not tested yet" in message.err
    assert _events(job / "checkpoints").count("proved") == 1


def test_storage_that_does_not_answer_is_no_usage_error(
    job: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The launcher waits for it. Then the job is held: it does not begin from the beginning."""

    def gone(*_: object, **__: object) -> object:
        raise OSError(116, os.strerror(116))

    monkeypatch.setattr(storage_wait, "DELAYS_S", (0.01, 0.02))
    monkeypatch.setattr("holdfast.adapters.safe_file.scan", gone)
    folder = job / "checkpoints"
    folder.mkdir()
    assert command.main(["--checkpoints", str(folder), "--", PYTHON, "-c", "print('ran')"]) == 1
    output = capfd.readouterr()
    assert output.err.count(f"{folder}: Stale file handle; next try in ") == 2
    assert f"decision: hold: {folder}: Stale file handle" in output.err
    assert output.out == ""


def test_a_command_that_finished_before_a_requeue_is_not_run_again(
    job: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = job / "checkpoints"
    argv = ["--checkpoints", str(folder), "--", PYTHON, "-c", "print('ran')"]
    journal = folder / ".holdfast" / "job-42.jsonl"
    assert command.main(argv) == 0
    # Without slurmctld's answer the success is not proved, so it would run again.
    lines = journal.read_text().replace('"succeeded": false', '"succeeded": true')
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    monkeypatch.setenv("SLURM_JOB_START_TIME", "1795229999")
    assert command.main(argv) == 0
    assert capfd.readouterr().out == "ran\nran\n"
    journal.write_text(lines)
    assert command.main(argv) == 0
    output = capfd.readouterr()
    assert output.out == ""
    assert "has finished in an earlier run of the job; not run again" in output.err
    assert _events(folder)[-1] == "skipped"


@pytest.mark.parametrize(
    ("options", "number"),
    [
        ([], None),
        (["--checkpoint-signal", "USR1"], signal.SIGUSR1),
        (["--checkpoint-signal", "sigusr2"], signal.SIGUSR2),
        (["--continue", "USR1@300"], signal.SIGUSR1),
        (["--continue", "300"], None),
        (["--continue", "USR1@300", "--checkpoint-signal", "12"], signal.SIGUSR2),
    ],
)
def test_the_signal_that_asks_for_a_checkpoint(
    job: Path, options: list[str], number: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int | None] = []

    def run(job: Job) -> int:
        seen.append(job.checkpoint_signal)
        return 0

    monkeypatch.setattr(command, "_run", run)
    assert command.main([*options, "--checkpoints", str(job), "--", "true"]) == 0
    assert seen == [number]

"""Messages of errors in logs of jobs that ended well, and the same messages where they are the cause."""

from __future__ import annotations

import pytest

from slurm_hooks.job.diagnosis.causes import Engine

FAILED = "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
HELPER = "srun: error: w-1: task 0: Exited with exit code 2\n"
NO_COMMAND = "/opt/job.sh: line 7: prepare-data: command not found\n"
NO_FILE = "bash: line 3: /etc/site-release: No such file or directory\n"
STEP = '[worker] {{"event": "evaluation", "metadata": {{"{name}": {n}, "file": "train.py"}}}}\n'


def code(text: str) -> str | None:
    engine = Engine()
    engine.feed("log", text.encode())
    engine.end("log")
    cause = engine.diagnosis().cause
    return cause.signature.code if cause else None


def records(first: int = 0, *, name: str = "epoch_num", count: int = 5) -> str:
    return "".join(STEP.format(name=name, n=n) for n in range(first, first + count))


@pytest.mark.parametrize("name", ["epoch_num", "samples_count", "first_epoch_num", "iter_idx"])
def test_records_show_that_training_goes_on(name: str) -> None:
    assert code(NO_FILE + records(name=name)) is None


@pytest.mark.parametrize("name", ["batch_size", "max_step_size", "number_of_samples"])
def test_records_of_settings_show_no_progress(name: str) -> None:
    assert code(NO_FILE + records(name=name)) == "U07"


def test_a_record_that_is_printed_again_shows_no_progress() -> None:
    assert code(NO_FILE + records(count=1) * 9) == "U07"


def test_a_step_that_failed_before_training_began_is_no_cause() -> None:
    assert code(HELPER) == "L05"
    assert code(HELPER + records()) is None
    assert code(HELPER + "Training completed\n") is None


def test_a_task_that_failed_within_training_is_the_cause() -> None:
    assert code(records() + HELPER + records(5)) == "L05"
    assert code(HELPER + records(count=2)) == "L05"
    assert code(HELPER + "The job has finished without errors\n") == "L05"


@pytest.mark.parametrize(
    "file", ["/home/u/.bashrc", "/home/u/.bash_profile", "/etc/profile.d/site.sh", "/etc/bashrc"]
)
def test_a_file_that_a_shell_reads_at_its_start_is_no_cause(file: str) -> None:
    assert code(f"{file}: line 7: module: command not found\n") is None
    assert code(NO_COMMAND) == "U02"


@pytest.mark.parametrize(
    "end",
    [
        "Launcher: Job 7 exited without errors",
        "the job has finished successfully.",
        "Pipeline successfully completed",
    ],
)
def test_a_script_that_says_that_it_ended_well_drops_what_need_not_be_fatal(end: str) -> None:
    assert code(NO_COMMAND + end) is None
    assert code(FAILED + end) == "C04"


@pytest.mark.parametrize(
    "end",
    [
        "The job has not finished successfully",
        "the script didn't exit, so that it ended without errors is unknown",
        "Job finished at 12:00",
        "Successfully built the index",
    ],
)
def test_other_words_do_not_drop_it(end: str) -> None:
    assert code(NO_COMMAND + end) == "U02"


def test_a_script_that_a_shell_cannot_parse_is_the_cause() -> None:
    script = (
        "/var/spool/slurmd/job00007/slurm_script: line 9: syntax error: unexpected end of file\n"
    )
    assert code("find: /data/a: No such file or directory\n" + script) == "U08"


def test_conda_that_is_not_set_up_is_not_the_cause_of_what_follows() -> None:
    conda = "CommandNotFoundError: Your shell has not been properly configured to use 'conda'.\n"
    assert code(conda) == "U02"
    assert code(conda + "ValueError: bad sample\n") == "U01"

"""``holdfast diagnose`` and ``holdfast explain`` on files that a user made to block or mislead them."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.commands.explain.files import read_journal
from holdfast.cli.commands.explain.job_text import job_page
from slurm_hooks.job.diagnosis import command

TOP = Path(__file__).parents[5]
BOB = 2002
CAUSE = "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"


def diagnosed(*logs: str | Path, stdin: Any = subprocess.DEVNULL) -> tuple[int, str]:
    """Exit status and output of a process with half a gigabyte of memory and twenty seconds."""

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))

    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "diagnose", *map(str, logs)],
        stdin=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=TOP,
        preexec_fn=bound,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_pipe_and_a_device_are_refused_in_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name, kind in (("pipe", "a named pipe"), ("zero", "a device")):
        path = tmp_path / name
        assert diagnosed(path) == (
            2,
            f"holdfast diagnose: {path}: not a regular file: {kind}; give a log that you can read\n",
        )


@pytest.mark.timeout(120)  # reads 1 GiB
def test_a_log_with_one_line_of_gigabytes(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        file.truncate(1 << 30)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + CAUSE.encode())
    status, output = diagnosed(tmp_path / "log")
    assert status == 0, output
    assert "C04" in output


def test_a_log_larger_than_any_disk_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        file.truncate(1 << 40)
    status, output = diagnosed(tmp_path / "log")
    assert (status, output.count("\n")) == (2, 1)
    assert "larger than 16 GiB" in output


@pytest.mark.parametrize("name", ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"])
def test_a_pipe_of_the_caller_is_read(name: str, tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, CAUSE.encode())
    os.close(write_end)
    status, output = diagnosed(name, stdin=read_end)
    os.close(read_end)
    assert status == 0
    assert f"{name}:1" in output


def test_a_link_of_the_caller_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text(CAUSE)
    (tmp_path / "log").symlink_to("real")
    assert diagnosed(tmp_path / "log")[0] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="makes another user's links")
def test_root_does_not_follow_a_users_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text(CAUSE)
    (tmp_path / "log").symlink_to("real")
    os.lchown(tmp_path / "log", BOB, BOB)
    status, output = diagnosed(tmp_path / "log")
    assert (status, output.count("\n")) == (2, 1)
    assert "log is a symbolic link of uid 2002, which root does not follow: " in output


def test_control_characters_in_a_log_are_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log\x1b[2J"
    log.write_text(f"\x1b]0;owned\x07\x9b2J\u202e{CAUSE}")
    assert command.main([str(log)]) == 0
    assert command.main(["--json", str(log)]) == 0
    assert command.main([f"{log}.no"]) == 2
    output = capsys.readouterr()
    assert not {"\x1b", "\x9b", "\x07", "\u202e"} & set(output.out + output.err)
    assert "uncorrectable ECC error" in output.out


# --- a job's journal, as holdfast explain reads it


def report(journal: Any) -> dict[str, Any]:
    return {
        "kind": "job",
        "job_id": 7,
        "job": None,
        "slurm_problem": "",
        "accounting": None,
        "kill_switches": [],
        "journal": str(journal.path) if journal else None,
        "journal_problem": journal.problem if journal else "",
        "attempts": list(journal.attempts) if journal else [],
        "incidents": [],
        "report": None,
        "nodes": [],
    }


def journal_file(folder: Path) -> Path:
    (folder / ".holdfast").mkdir(parents=True)
    return folder / ".holdfast" / "job-7.jsonl"


def bounded(work_dir: Path) -> Any:
    """As ``read_journal``, but a test that hangs fails."""
    found: list[Any] = []
    reader = threading.Thread(
        target=lambda: found.append(read_journal(7, None, work_dir)), daemon=True
    )
    reader.start()
    reader.join(20)
    assert found, "reading the journal hangs"
    return found[0]


def test_a_journal_that_is_a_pipe_is_reported_and_not_read(tmp_path: Path) -> None:
    os.mkfifo(journal_file(tmp_path))
    page = job_page(report(bounded(tmp_path)))
    assert "(cannot be read: not a regular file: a named pipe)" in page


def test_a_journal_that_is_too_large_is_reported_and_not_read(tmp_path: Path) -> None:
    with journal_file(tmp_path).open("wb") as file:
        file.truncate(1 << 40)
    page = job_page(report(bounded(tmp_path)))
    assert "(cannot be read: larger than 32768 KiB)" in page


def test_the_next_place_is_tried(tmp_path: Path) -> None:
    os.mkfifo(journal_file(tmp_path))
    event = {"event": "attempt", "attempt": 1, "t": 1.7e9}
    journal_file(tmp_path / "a" / "b").write_text(json.dumps(event) + "\n")
    found = bounded(tmp_path)
    assert (found.problem, len(found.attempts)) == ("", 1)


def test_the_search_of_a_working_folder_with_many_folders_ends(tmp_path: Path) -> None:
    for number in range(2500):
        (tmp_path / f"{number:04}").mkdir()
    journal_file(tmp_path / "9999").write_text('{"event": "attempt"}\n')
    journal_file(tmp_path).write_text('{"event": "attempt"}\n')
    assert bounded(tmp_path).path.parent.parent == tmp_path


KINDS: tuple[object, ...] = (
    "text",
    7,
    -1,
    1.5,
    1e300,
    None,
    True,
    [],
    ["a"],
    {},
    {"path": 7, "step": "x"},
    "\x1b\n",
)


@pytest.mark.parametrize("value", KINDS, ids=repr)
def test_a_journal_may_hold_any_value(value: object, tmp_path: Path) -> None:
    keys = "attempt restarts t nodes chosen rejected exit_code ended_why cause_text cause faults action why"
    names = ("attempt", "checkpoint", "step_end", "evidence", "decision", "finish")
    events = [{"event": name, **dict.fromkeys(keys.split(), value)} for name in names]
    text = "\n".join(map(json.dumps, events))
    journal_file(tmp_path).write_text(text)
    page = job_page(report(bounded(tmp_path)))
    assert all(char.isprintable() or char == "\n" for char in page)
    assert "ATTEMPT" in page


def test_a_journal_cannot_forge_a_line_of_the_page(tmp_path: Path) -> None:
    why = "x\n  verdict   ok\x1b[1A"
    events = [
        {"event": "attempt", "t": 1.7e9},
        {"event": "evidence", "cause": why, "faults": [{"node": why, "code": why}]},
        {"event": "decision", "action": why, "why": why},
    ]
    journal_file(tmp_path).write_text("\n".join(map(json.dumps, events)))
    page = job_page(report(bounded(tmp_path)))
    assert "\x1b" not in page
    assert not [line for line in page.splitlines() if line.startswith("  verdict   ok")]

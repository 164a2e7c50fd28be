"""A slurmstepd that was killed leaves its socket behind; one that ends removes it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurm_hooks.node import machine
from slurm_hooks.node.process import Process
from slurm_hooks.node.step_sockets import (
    UNKNOWN,
    KilledStep,
    NoSpoolFolder,
    StepSockets,
    pid_listening,
)

_LISTENS = """\
import socket, sys, time
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("up", flush=True)
time.sleep(60)
"""
JOBS = {7: 0.0}
LOST = KilledStep(job=7, step="0")


def listening(path: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", _LISTENS, str(path)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def sockets(folder: Path) -> StepSockets:
    folder.chmod(0o755)
    return StepSockets(folder, "n1", Path("/proc"))


def test_a_killed_listener_is_found_at_the_next_look_and_once(tmp_path: Path) -> None:
    process = listening(tmp_path / "n1_7.0")
    looks = sockets(tmp_path)
    assert list(looks.killed(JOBS)) == list(looks.killed(JOBS)) == []
    kill(process)
    assert [list(looks.killed(JOBS)) for _ in range(4)] == [[LOST], [], [], []]


def test_one_that_ends_normally_during_a_look_is_not_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = listening(tmp_path / "n1_7.0")
    looks = sockets(tmp_path)
    assert list(looks.killed(JOBS)) == []
    alive = Process.alive

    def ends(seen: Process, procfs: str) -> bool:
        """After the folder was read: its file goes, then the process."""
        (tmp_path / "n1_7.0").unlink(missing_ok=True)
        kill(process)
        return alive(seen, procfs)

    monkeypatch.setattr(Process, "alive", ends)
    assert [list(looks.killed(JOBS)) for _ in range(3)] == [[]] * 3


def test_one_that_ends_normally_before_it_was_seen_is_not_killed(tmp_path: Path) -> None:
    kill(listening(tmp_path / "n1_7.0"))
    looks = sockets(tmp_path)
    assert list(looks.killed(JOBS)) == []
    (tmp_path / "n1_7.0").unlink()  # the file goes a moment after the socket is closed
    assert [list(looks.killed(JOBS)) for _ in range(3)] == [[]] * 3


def test_one_that_was_killed_before_the_first_look_is_found(tmp_path: Path) -> None:
    kill(listening(tmp_path / "n1_7.0"))
    looks = sockets(tmp_path)
    assert [list(looks.killed(JOBS)) for _ in range(4)] == [[], [LOST], [], []]


def test_a_socket_from_before_the_run_is_of_an_earlier_one(tmp_path: Path) -> None:
    kill(listening(tmp_path / "n1_7.0"))
    os.utime(tmp_path / "n1_7.0", times=(time.time() - 10, time.time() - 10))
    looks, jobs = sockets(tmp_path), {7: machine.uptime_s() - 5}
    assert [list(looks.killed(jobs)) for _ in range(4)] == [[]] * 4


def test_of_a_listener_whose_pid_is_not_known_nothing_is_proved(tmp_path: Path) -> None:
    """As seen from another pid namespace."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "n1_7.0"))
        tmp_path.chmod(0o755)
        answers = [UNKNOWN] * 3 + [None] * 2
        looks = StepSockets(tmp_path, "n1", Path("/proc"), lambda _: answers.pop(0))
        assert [list(looks.killed(JOBS)) for _ in range(5)] == [[], [], [], [], [LOST]]


def test_the_socket_of_the_next_run_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "n1_7.0"
    process = listening(path)
    looks = sockets(tmp_path)
    assert list(looks.killed(JOBS)) == []
    kill(process)
    assert list(looks.killed(JOBS)) == [LOST]
    old = path.rename(tmp_path / "aside")  # so that its inode is not used again
    process = listening(path)
    try:
        assert [list(looks.killed(JOBS)) for _ in range(3)] == [[]] * 3
    finally:
        kill(process)
        old.unlink()


@pytest.mark.parametrize(
    "name", ["n1_8.0", "n2_7.0", "n1_7.4294967291", "n1_7.x", "n1_7.0.1", "xn1_7.0", "n1_7"]
)
def test_other_sockets_are_not_looked_at(name: str, tmp_path: Path) -> None:
    """Of other jobs and nodes, of the batch script and the extern step, and other files."""
    process = listening(tmp_path / name)
    looks = sockets(tmp_path)
    assert list(looks.killed(JOBS)) == []
    kill(process)
    assert [list(looks.killed(JOBS)) for _ in range(3)] == [[]] * 3


def test_a_plain_file_is_no_socket(tmp_path: Path) -> None:
    (tmp_path / "n1_7.0").touch()
    assert list(sockets(tmp_path).killed(JOBS)) == []


def test_a_folder_that_others_can_write_to_proves_nothing(tmp_path: Path) -> None:
    looks = sockets(tmp_path)
    tmp_path.chmod(0o777)
    with pytest.raises(NoSpoolFolder, match="others than root"):
        list(looks.killed(JOBS))
    with pytest.raises(NoSpoolFolder, match="No such file"):
        list(StepSockets(tmp_path / "none", "n1", Path("/proc")).killed(JOBS))


def test_the_pid_of_a_listener(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        assert pid_listening(tmp_path / "s") is None
        listener.listen(0)
        assert pid_listening(tmp_path / "s") == os.getpid()
    assert pid_listening(tmp_path / "s") is None
    assert pid_listening(tmp_path / "none") is None

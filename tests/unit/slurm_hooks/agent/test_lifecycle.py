"""One agent per node, its restarts by the health check, and its messages to systemd."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from holdfast.records import verdict_file
from slurm_hooks.agent import lock, systemd
from slurm_hooks.hooks import health_check, start_backoff
from slurm_hooks.hooks.start_backoff import Starts

ROOT = Path(__file__).parents[4]
SAME = (1, 2)


# --- the lock ---------------------------------------------------------------------------------------


def test_of_many_agents_that_start_at_once_one_holds_the_lock(tmp_path: Path) -> None:
    code = """
import sys, time
from pathlib import Path
from slurm_hooks.agent import lock
path = Path(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
held = lock.take(path)
print("held" if held else "left", flush=True)
sys.stdin.readline()
"""
    argv = [sys.executable, "-c", code, str(tmp_path / "agent.lock")]
    pipe = subprocess.PIPE
    them = [subprocess.Popen(argv, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) for _ in range(6)]
    said = []
    for one in them:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in them:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    for one in them:
        assert one.stdout is not None
        said.append(one.stdout.readline().strip())
    for one in them:
        one.communicate("end\n")
    assert sorted(said) == ["held"] + ["left"] * 5


def test_reading_the_holder_does_not_keep_an_agent_from_its_lock(tmp_path: Path) -> None:
    """Health checks read the holder while an agent starts; that must not keep the agent from
    starting."""
    path, ends = lock.path_in(tmp_path), threading.Event()
    path.touch()

    def look() -> None:
        while not ends.is_set():
            lock.holder(tmp_path)

    lookers = [threading.Thread(target=look) for _ in range(4)]
    for one in lookers:
        one.start()
    try:
        for _ in range(30):
            held = lock.take(path)
            assert held is not None
            assert lock.holder(tmp_path) == os.getpid()
            lock.release(held.fd)
    finally:
        ends.set()
        for one in lookers:
            one.join()


def test_a_crash_is_distinguished_from_a_clean_stop(tmp_path: Path) -> None:
    path = lock.path_in(tmp_path)
    first = lock.take(path)
    assert first is not None
    assert not first.crashed
    lock.release(first.fd)
    second = lock.take(path)
    assert second is not None
    assert not second.crashed
    os.close(second.fd)  # as a kill would
    third = lock.take(path)
    assert third is not None
    assert third.crashed
    os.close(third.fd)


_BECOMES = """
import os, sys
from pathlib import Path
from slurm_hooks.agent import lock
path = Path(sys.argv[1])
held = lock.inherited(path)
if held is None:
    held = lock.take(path)
    lock.hand_over(held.fd)
    os.execv(sys.executable, [sys.executable, "-c", os.environ["PROGRAM"], str(path)])
print(os.getpid(), held.crashed, os.get_inheritable(held.fd), flush=True)
sys.stdin.readline()
lock.release(held.fd)
"""


def test_a_lock_is_held_while_its_holder_executes_another_program(tmp_path: Path) -> None:
    path = lock.path_in(tmp_path)
    child = subprocess.Popen(
        [sys.executable, "-c", _BECOMES, str(path)],
        cwd=ROOT,
        env={**os.environ, "PROGRAM": _BECOMES},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    ended, free = threading.Event(), []

    def look() -> None:
        while lock.holder(tmp_path) is None:
            pass
        while not ended.is_set():
            free.extend([True] if lock.holder(tmp_path) is None else [])

    looker = threading.Thread(target=look)
    looker.start()
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == f"{child.pid} False False\n"
    finally:
        ended.set()
        looker.join()
        child.communicate("end\n")
    assert free == []
    after = lock.take(path)
    assert after is not None
    assert not after.crashed
    os.close(after.fd)


@pytest.mark.parametrize("before", [None, 0o644])
def test_no_user_can_keep_an_agent_from_its_lock(tmp_path: Path, before: int | None) -> None:
    """flock(2) needs no write permission: any process that can open the file can hold the lock for
    ever."""
    path = lock.path_in(tmp_path)
    if before is not None:
        path.touch(before)
    held = lock.take(path)
    assert held is not None
    lock.release(held.fd)
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_invalid_lock_descriptor_is_not_inherited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = lock.take(lock.path_in(tmp_path))
    assert held is not None
    lock.hand_over(held.fd)
    assert lock.inherited(tmp_path / "another") is None
    monkeypatch.setenv("HOLDFAST_AGENT_LOCK_FD", "9999")
    assert lock.inherited(lock.path_in(tmp_path)) is None


def test_a_removed_lock_is_not_held(tmp_path: Path) -> None:
    path = lock.path_in(tmp_path)
    held = lock.take(path)
    assert held is not None
    assert lock.is_held(held.fd, path)
    path.unlink()
    assert not lock.is_held(held.fd, path)
    other = lock.take(path)
    assert other is not None
    assert not lock.is_held(held.fd, path)
    assert lock.is_held(other.fd, path)
    os.close(held.fd)
    os.close(other.fd)


def test_the_agent_starts_even_if_the_start_cannot_be_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """/run is full: otherwise the node would have no agent until it is not."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(start_backoff, "save", full)
    assert health_check._is_time(tmp_path, "n1")


# --- restarts ---------------------------------------------------------------------------------------


def storm(*, bears: bool, every_s: int = 5) -> list[int]:
    """The times at which an agent that exits at once is started in ten hours of health checks."""
    starts, at = Starts(config=SAME), []
    for now in range(0, 36_000, every_s):
        if bears:
            starts = start_backoff.with_verdict(starts)
        if not start_backoff.wait_s(starts, float(now), SAME):
            at.append(now)
            starts = start_backoff.started(starts, float(now), SAME)
    return at


def test_restarts_in_a_row_become_rarer() -> None:
    at = storm(bears=False)
    assert at[:5] == [0, 5, 10, 15, 20], "a few restarts are normal"
    assert at[5:9] == [30, 50, 90, 170]
    assert len([t for t in at if t < 3600]) <= 25
    assert max(b - a for a, b in itertools.pairwise(at)) <= 300 + 5, "but never given up"


def test_an_agent_that_worked_is_restarted_at_once_but_not_for_ever() -> None:
    at = storm(bears=True)
    assert at[:60] == list(range(0, 300, 5))
    assert len(at) <= 10 * 75


def test_a_quiet_hour_or_a_new_configuration_ends_the_wait() -> None:
    many = Starts(at=tuple(float(n) for n in range(100, 160, 5)), fruitless=12, config=SAME)
    assert start_backoff.wait_s(many, 160.0, SAME) == 300 - 5
    assert start_backoff.wait_s(many, 160.0, (3, 4)) == 0
    assert start_backoff.started(many, 160.0, (3, 4)) == Starts(
        at=(160.0,), fruitless=1, config=(3, 4)
    )
    assert start_backoff.wait_s(start_backoff.with_verdict(many), 160.0, SAME) == 0
    assert start_backoff.wait_s(many, 4000.0, SAME) == 0
    assert start_backoff.started(many, 4000.0, SAME).fruitless == 1
    assert start_backoff.wait_s(many, 5.0, SAME) == 0, "later than now: from another boot"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2, "at": "x", "config": 3}', "\0"])
def test_an_invalid_file_of_starts_stops_nothing(tmp_path: Path, text: str) -> None:
    path = start_backoff.path_in(tmp_path)
    path.write_text(text)
    assert start_backoff.load(path) == Starts()
    start_backoff.save(path, Starts(at=(1.0,), config=SAME))
    assert start_backoff.load(path) == Starts(at=(1.0,), config=SAME)


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The nodes whose agents the health check started; nothing is started here."""
    config = tmp_path / "holdfast.yaml"
    config.write_text(f"paths: {{run: {tmp_path}/run}}\n")
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("HOLDFAST_CONFIG", str(config))
    monkeypatch.setenv("SLURMD_NODENAME", "w")
    found: list[str] = []
    monkeypatch.setattr(health_check, "start", found.append)
    return found


def test_the_health_check_delays_starts_and_reports_it(
    tmp_path: Path, started: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(8):
        assert health_check.main() == 0
    assert started == ["w"] * 5
    line = capsys.readouterr().err.splitlines()[-1]
    assert "was started 5 times and exited; next start in " in line
    assert "agent.w.log" in line
    config = tmp_path / "holdfast.yaml"
    config.write_text(config.read_text() + "# corrected\n")
    health_check.main()
    assert len(started) == 6
    for _ in range(8):  # each of these agents published something before it was killed
        published = verdict_file.path_in(tmp_path / "run")
        published.write_text("")
        # files written within one tick of the kernel's clock have the same time
        at_ns = start_backoff.path_in(tmp_path / "run").stat().st_mtime_ns + 1
        os.utime(published, ns=(at_ns, at_ns))
        health_check.main()
    assert len(started) == 14


def test_the_health_check_starts_no_second_agent(tmp_path: Path, started: list[str]) -> None:
    held = lock.take(lock.path_in(tmp_path / "run"))
    assert held is not None
    assert health_check.main() == 0
    os.close(held.fd)
    assert started == []


# --- supervision ------------------------------------------------------------------------------------


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_receives_the_agents_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool
) -> None:
    name = f"@holdfast-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(5)
        manager.bind("\0" + name[1:] if abstract else name)
        monkeypatch.setenv(systemd.VARIABLE, name)
        systemd.ready("ok,\n0 findings")
        assert manager.recv(500) == b"READY=1\nWATCHDOG=1\nSTATUS=ok, 0 findings"
        systemd.stopping()
        assert manager.recv(500) == b"STOPPING=1"


def test_a_supervisor_that_does_not_read_delays_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not systemd.notify("READY=1")
    for value in ("", "nonsense", str(tmp_path / "nobody"), "@nobody-" + "x" * 200):
        monkeypatch.setenv(systemd.VARIABLE, value)
        assert not systemd.notify("READY=1")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
        deaf.bind(str(tmp_path / "deaf"))
        monkeypatch.setenv(systemd.VARIABLE, str(tmp_path / "deaf"))
        began = time.monotonic()
        while systemd.notify("WATCHDOG=1"):
            assert time.monotonic() - began < 30


def test_an_agent_is_replaced_only_after_a_long_silence(tmp_path: Path, started: list[str]) -> None:
    """After twice verdict_ttl_s, so that a site with an interval of minutes keeps its agent."""
    config = tmp_path / "holdfast.yaml"
    config.write_text(config.read_text() + "agent: {interval_s: 100, verdict_ttl_s: 300}\n")
    code = (
        "import fcntl, os, sys, time  # slurm_hooks.agent\n"
        "fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
        "fcntl.flock(fd, fcntl.LOCK_EX); os.write(fd, b'%d' % os.getpid()); print(flush=True)\n"
        "time.sleep(60)\n"
    )
    path = lock.path_in(tmp_path / "run")
    argv = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        for silent_s, replaced in ((10, False), (500, False), (700, True)):
            then = time.time() - silent_s
            os.utime(path, (then, then))
            assert health_check.main() == 0
            assert bool(started) is replaced
            assert holder.wait(10) == -signal.SIGKILL if replaced else holder.poll() is None
        holder.kill()

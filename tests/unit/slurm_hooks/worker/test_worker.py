"""A probe that never returns delays nothing, and no second one is started beside it."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import ProbeError
from slurm_hooks.node.process import evidence_of, process_state
from slurm_hooks.probes.probe import silence
from slurm_hooks.worker.termination import may_wait_for_cpu
from slurm_hooks.worker.worker import Worker, call
from tests.unit.slurm_hooks.conftest import SimulatedNvml


def echo() -> Callable[[Any], Iterator[Any]]:
    def serve(request: Any) -> Iterator[Any]:
        yield request
        yield os.getpid()

    return serve


def test_a_worker_answers_and_is_kept_for_the_next_request() -> None:
    worker = Worker("echo", echo)
    first = call(worker, "a", deadline_s=5)
    second = call(worker, "b", deadline_s=5)
    worker.close()
    assert (first.items[0], second.items[0]) == ("a", "b")
    assert first.items[1] == second.items[1] != os.getpid()
    assert first.complete


def test_a_request_may_be_larger_than_the_pipe() -> None:
    """A user can leave any number of processes, which a worker has to kill."""
    worker = Worker("echo", echo)
    request = "x" * (3 << 20)
    assert call(worker, request, deadline_s=20).items[:1] == (request,)
    worker.close()


def test_a_large_request_does_not_wait_for_a_process_that_is_stopped() -> None:
    worker = Worker("echo", echo)
    pid = call(worker, "a", deadline_s=20).items[1]
    os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    answer = call(worker, "x" * (3 << 20), deadline_s=20)
    assert "does not read the request" in answer.error
    assert time.monotonic() - began < 5
    os.kill(pid, signal.SIGKILL)


def test_a_worker_that_is_not_kept_serves_once() -> None:
    worker = Worker("echo", echo, keep=False)
    pids = {call(worker, n, deadline_s=5).items[1] for n in range(3)}
    assert len(pids) == 3


def test_items_before_a_hang_are_kept() -> None:
    def open_() -> Callable[[Any], Iterator[Any]]:
        def serve(_: Any) -> Iterator[Any]:
            yield 1
            yield 2
            time.sleep(60)
            yield 3

        return serve

    worker = Worker("slow", open_)
    answer = call(worker, None, deadline_s=3)
    assert answer.items == (1, 2)
    assert answer.hung
    assert 3 <= answer.wall_s < 55
    assert "state S" in answer.evidence


def test_errors_are_answers() -> None:
    def open_() -> Callable[[Any], Iterator[Any]]:
        def serve(request: Any) -> Iterator[Any]:
            yield "seen"
            if request == "ours":
                raise ProbeError("no such device")
            if request == "bug":
                raise KeyError("x")
            os._exit(3)

        return serve

    worker = Worker("bad", open_)
    assert call(worker, "ours", deadline_s=5).error == "no such device"
    assert call(worker, "bug", deadline_s=5).error == "KeyError: 'x'"
    died = call(worker, "die", deadline_s=5)
    assert died.error.startswith("the worker exited unexpectedly")
    assert not died.hung
    assert call(worker, "ours", deadline_s=5).error == "no such device", "a new one is started"
    worker.close()


def test_a_worker_that_ignores_sigterm_is_killed_later_without_waiting() -> None:
    def open_() -> Callable[[Any], Iterator[Any]]:
        def serve(_: Any) -> Iterator[Any]:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            yield os.getpid()
            time.sleep(60)

        return serve

    worker = Worker("stubborn", open_)
    answer = call(worker, None, deadline_s=3)
    pid = answer.items[0]
    assert process_state(pid) is not None
    end = time.monotonic() + 60
    while process_state(pid) and time.monotonic() < end:
        worker.reap(time.monotonic())
        time.sleep(0.02)
    assert process_state(pid) is None
    assert worker.stuck is None


def test_a_worker_has_only_its_pipes_open(tmp_path: Path) -> None:
    held = (tmp_path / "held").open("w")

    def open_() -> Callable[[Any], Iterator[Any]]:
        def serve(_: Any) -> Iterator[Any]:
            yield sorted(str(Path(f"/proc/self/fd/{fd}").readlink()) for fd in (0, 1, 2))
            yield [fd for fd in range(5, 64) if Path(f"/proc/self/fd/{fd}").exists()]
            yield os.getsid(0) == os.getpid()

        return serve

    worker = Worker("closed", open_)
    answer = call(worker, None, deadline_s=5)
    worker.close()
    held.close()
    assert answer.items == (["/dev/null"] * 3, [], True)


def test_a_worker_exits_with_its_parent() -> None:
    read, write = os.pipe()
    parent = os.fork()
    if parent == 0:
        worker = Worker("child", echo)
        os.write(write, str(call(worker, None, deadline_s=5).items[1]).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(write)
    pid = int(os.read(read, 32))
    os.close(read)
    os.waitpid(parent, 0)
    end = time.monotonic() + 60
    while (state := process_state(pid)) and state[0] != "Z" and time.monotonic() < end:
        time.sleep(0.01)
    assert state is None or state[0] == "Z"


def nvml_worker(sim: SimulatedNvml, token: Path) -> Worker:
    from slurm_hooks.probes.nvml import reader

    return Worker("nvml", lambda: reader.open_probe(sim.library), token=token)


@pytest.mark.parametrize("kind", ["1", "D", "K"])
def test_a_hung_driver_delays_by_its_deadline_only(
    nvml: SimulatedNvml, tmp_path: Path, kind: str
) -> None:
    """K: the process survives SIGKILL, as with a thread stuck inside the driver."""
    worker = nvml_worker(nvml, tmp_path / "token")
    assert call(worker, "read", deadline_s=20).complete
    nvml.set("gpu.5.hang.nvmlDeviceGetRemappedRows", kind)
    began = time.monotonic()
    answer = call(worker, "read", deadline_s=4)
    assert time.monotonic() - began < 55
    assert answer.hung
    gpus = [part.index for part in answer.items if hasattr(part, "index")]
    assert gpus == [0, 1, 2, 3, 4], "those that answered before are kept"
    assert "pid" in answer.evidence
    nvml.set("gpu.5.hang.nvmlDeviceGetRemappedRows", 0)
    heals(worker)


def heals(worker: Worker) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        worker.reap(time.monotonic())
        if call(worker, "read", deadline_s=20).complete:
            worker.close()
            return
        time.sleep(0.05)
    pytest.fail("the worker never came back")


def gets_stuck(worker: Worker) -> int:
    """The pid of the worker's process, which SIGKILL does not end. On a busy machine it may have been killed
    before it reached the driver; then it gets more time."""
    for deadline_s in (1.0, 4.0, 12.0):
        assert call(worker, "read", deadline_s=deadline_s).hung
        end = time.monotonic() + 2
        while worker.stuck is None and time.monotonic() < end:
            time.sleep(0.02)
        if worker.stuck is not None:
            return worker.stuck
    pytest.fail("the process was killed each time")


def test_no_second_probe_starts_while_one_cannot_be_killed(
    nvml: SimulatedNvml, tmp_path: Path
) -> None:
    token = tmp_path / "state" / "stuck.json"
    nvml.set("gpu.0.hang.nvmlDeviceGetName", "K")
    worker = nvml_worker(nvml, token)
    stuck = gets_stuck(worker)
    assert token.exists()
    for again in (worker, nvml_worker(nvml, token)):  # the second one: a restarted agent
        began = time.monotonic()
        answer = call(again, "read", deadline_s=1.0)
        assert answer.hung
        assert time.monotonic() - began < 30
        assert str(stuck) in answer.evidence
    nvml.set("gpu.0.hang.nvmlDeviceGetName", 0)
    heals(worker)
    assert not token.exists()


@pytest.mark.parametrize(
    ("state", "killed_s", "waits"),
    [
        ("R", 0.5, True),
        ("R", 60.0, False),
        ("D", 0.5, False),
        ("t", 0.5, False),
        ("Z", 0.5, True),
        ("", 0.5, True),
        ("R", float("inf"), False),
    ],
    ids=["busy machine", "runs in the kernel", "hangs", "traced", "ended", "gone", "earlier agent"],
)
def test_a_runnable_process_may_only_wait_for_a_cpu(
    state: str, killed_s: float, waits: bool
) -> None:
    assert may_wait_for_cpu(state, killed_s) is waits


def test_a_killed_worker_that_did_not_run_yet_is_no_evidence(
    nvml: SimulatedNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine with a load of 20 on 2 CPUs a healthy node was drained for it."""
    nvml.set("gpu.0.hang.nvmlDeviceGetName", "K")
    worker = nvml_worker(nvml, tmp_path / "token")
    gets_stuck(worker)
    end = time.monotonic() + 20
    while not silence("nvml", call(worker, "read", deadline_s=1.0)).stuck:
        assert time.monotonic() < end, "it hangs, and does not wait for a CPU"
    with monkeypatch.context() as patched:
        patched.setattr("slurm_hooks.worker.worker.process_state", lambda _: ("R", 1))
        answer = call(worker, "read", deadline_s=1.0)
    assert (answer.stuck, silence("nvml", answer).stuck) == (True, False)
    nvml.set("gpu.0.hang.nvmlDeviceGetName", 0)
    heals(worker)


def test_evidence_of_a_process_that_exited() -> None:
    assert evidence_of(2**22 + 1) == "gone"


def test_a_worker_killed_between_two_requests_is_reaped() -> None:
    worker = Worker("echo", echo)
    pid = call(worker, "a", deadline_s=5).items[1]
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert not call(worker, "b", deadline_s=5).complete
    worker.reap(time.monotonic())
    assert pid not in children_of(os.getpid())
    assert call(worker, "c", deadline_s=5).items[0] == "c"
    worker.close()


def test_a_failed_fork_leaks_no_descriptor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_fork() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    worker = Worker("echo", echo)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fork", no_fork)
        before = len([*Path("/proc/self/fd").iterdir()])
        for _ in range(3):
            assert "cannot start a worker" in call(worker, "a", deadline_s=5).error
        assert len([*Path("/proc/self/fd").iterdir()]) == before
    assert call(worker, "a", deadline_s=5).items[0] == "a"
    worker.close()


def test_a_child_that_exited_is_reaped() -> None:
    """A zombie for every answer would fill the process table of a node that stays up for months."""
    worker = Worker("leaver", lambda: lambda _request: iter((os.getpid(),)), keep=False)
    # Other tests of this process have children too, so only these count.
    started = {call(worker, "", deadline_s=5).items[0] for _ in range(30)}
    assert len(started) == 30
    end = time.monotonic() + 60
    while started & children_of(os.getpid()) and time.monotonic() < end:
        worker.reap(time.monotonic())
        time.sleep(0.01)
    assert not started & children_of(os.getpid())


def children_of(parent: int, states: str = "") -> set[int]:
    """In any of these states; none given: in any."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, ppid = stat.read_text(errors="replace").rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        if int(ppid) == parent and (not states or state in states):
            found.add(int(stat.parent.name))
    return found

"""The supervisor's tracking of daemons and nodes; its effect on processes is tested in a box."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from testbed.inside import supervisor as supervisor_module
from testbed.inside.daemons import Daemon
from testbed.inside.supervisor import Supervisor
from testbed.shape import Shape

DAEMONS = {
    "bridge": Daemon(name="bridge", argv=("bridge",), log="/dev/null", restart_s=1.0),
    "slurmctld": Daemon(name="slurmctld", argv=("slurmctld",), log="/dev/null"),
}


class Process:
    """A child that never ran."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.signals: list[int] = []

    def send_signal(self, number: int) -> None:
        self.signals.append(number)


@pytest.fixture
def supervised(monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    pids = iter(range(100, 200))
    spawn: Callable[[Daemon], Process] = lambda _: Process(next(pids))  # noqa: E731
    monkeypatch.setattr(supervisor_module, "_spawn", spawn)
    shape = Shape(name="b", nodes=2, slurm="24.11", root="/r")
    return Supervisor(shape, DAEMONS)


def ask(supervised: Supervisor, do: str, name: str = "") -> dict[str, object]:
    return supervised.answer(json.dumps({"do": do, "name": name}).encode())


def test_a_daemon_is_started_once(supervised: Supervisor) -> None:
    assert ask(supervised, "start", "bridge") == ask(supervised, "start", "bridge") == {"pid": 100}


def test_a_bridge_that_exits_is_restarted_after_its_delay(supervised: Supervisor) -> None:
    ask(supervised, "start", "bridge")
    supervised._ended(100, 9, now=50.0)
    assert supervised.restart(50.4) == pytest.approx(0.6)
    assert "bridge" not in supervised.daemons
    assert supervised.restart(51.0) is None
    assert supervised.daemons["bridge"].pid == 101


def test_a_stopped_bridge_stays_down_until_it_is_started(supervised: Supervisor) -> None:
    ask(supervised, "start", "bridge")
    ask(supervised, "stop", "bridge")
    supervised._ended(100, 9, now=50.0)
    assert supervised.restart(1000.0) is None
    assert not supervised.daemons
    ask(supervised, "start", "bridge")
    assert supervised.daemons["bridge"].pid == 101


def test_a_daemon_that_is_still_ending_is_started_by_a_later_request(
    supervised: Supervisor,
) -> None:
    """Otherwise it would stay down: the old process was there when the start was requested."""
    ask(supervised, "start", "slurmctld")
    ask(supervised, "stop", "slurmctld")
    assert ask(supervised, "start", "slurmctld") == {"ending": True}
    supervised._ended(100, 9, now=50.0)
    assert ask(supervised, "start", "slurmctld") == {"pid": 101}


def test_a_controller_that_exits_stays_down(supervised: Supervisor) -> None:
    ask(supervised, "start", "slurmctld")
    supervised._ended(100, 9, now=50.0)
    assert supervised.restart(1000.0) is None
    assert not supervised.daemons


@pytest.mark.parametrize(
    "line", [b"", b"{}", b"[]", b"7", b'{"do": "fly"}', b'{"do": "start", "name": "nobody"}',
             b'{"do": "cut", "name": "worker-7"}', b'{"do": "cut", "name": "worker-0"}'],
)  # fmt: skip
def test_an_invalid_request_gets_an_error(supervised: Supervisor, line: bytes) -> None:
    assert list(supervised.answer(line)) == ["error"]


def test_a_missing_program_gets_an_error(
    supervised: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(_: Daemon) -> subprocess.Popen[bytes]:
        raise FileNotFoundError(2, "No such file or directory", "bridge")

    monkeypatch.setattr(supervisor_module, "_spawn", absent)
    assert "No such file" in str(ask(supervised, "start", "bridge")["error"])


def test_daemons_do_not_inherit_the_ignored_signals_of_a_background_job() -> None:
    """slurmd's tasks would ignore SIGINT too: `scancel --signal=INT` would do nothing."""
    scripts = Path(__file__).parents[5] / "scripts"
    program = (
        "import subprocess; from testbed.inside import supervisor; supervisor._default_signals(); "
        "print(subprocess.run(['grep', 'SigIgn', '/proc/self/status'], capture_output=True, text=True).stdout)"
    )
    done = subprocess.run(
        ["sh", "-c", "trap '' HUP INT QUIT; exec \"$@\"", "sh", sys.executable, "-c", program],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(scripts)},
    )  # fmt: skip
    ignored = int(done.stdout.split()[1], 16)
    assert [number for number in (1, 2, 3) if ignored & 1 << (number - 1)] == []

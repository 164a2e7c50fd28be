"""The end of a box on a machine whose process 1 reaps nothing, as in some containers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).parents[5]

PROCESS_1 = """
import os, subprocess, sys, time
from testbed.namespaces import pidfd
from testbed.errors import SandboxError
from testbed.inside.processes import first_child

def child_of(pid):
    while (child := first_child(pid)) is None:
        time.sleep(0.01)
    return child

def state_of(pid):
    return open(f"/proc/{pid}/stat").read().split()[2]

assert os.getpid() == 1
box = child_of(subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child=KILL", "sleep", "60"]).pid)
enter = subprocess.Popen(["nsenter", f"--target={box}", "--pid", "sleep", "60"])
inside = child_of(enter.pid)
enter.kill()
enter.wait()
if sys.argv[1] == "zombie":
    os.kill(inside, 9)
    while state_of(inside) != "Z":
        time.sleep(0.01)
pidfd.end_namespace(box, timeout_s=10)
print(state_of(inside))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a pid namespace")
@pytest.mark.parametrize("command", ["zombie", "running"])
def test_it_ends_although_no_process_reaps_a_command_that_ran_in_it(command: str) -> None:
    done = subprocess.run(
        [
            "unshare", "--pid", "--mount-proc", "--fork", "--kill-child=KILL",
            sys.executable, "-W", "ignore", "-c", PROCESS_1, command,
        ],
        capture_output=True, text=True, check=False, timeout=25,
        env={**os.environ, "PYTHONPATH": str(TREE / "scripts")},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("Z\n", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a pid namespace")
def test_a_running_process_is_waited_for() -> None:
    """A process that the freezer or a hung file system stopped holds its mounts: it has not ended."""
    from testbed.namespaces.pidfd import _is_ending

    with subprocess.Popen(["sleep", "60"]) as process:
        assert not _is_ending(process.pid)
        process.kill()
        while not _is_ending(process.pid):
            pass
        assert process.wait() == -9

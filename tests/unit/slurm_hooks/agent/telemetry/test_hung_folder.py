"""A history on a filesystem that does not answer, where SIGKILL does not end the writer: needs
root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from testbed.faults import hung_mount

ROOT = Path(__file__).parents[5]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")

_SCRIPT = """
import json, subprocess, sys, time
from pathlib import Path
from holdfast.history import store
from slurm_hooks.agent.telemetry import recorder
from slurm_hooks.agent.telemetry.recorder import Recorder

folder, spool, server = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
recorder._DEADLINE_S, recorder._RETRY_S, recorder._SPREAD_S = 0.3, (0.1, 0.2), 0.0
recorder = Recorder(folder / "history", "w", "boot", spool=spool, max_bytes=1_000_000)
subprocess.run([sys.executable, "-I", server, str(folder)], check=True)
longest = 0.0

def turn_until(what, limit_s):
    global longest
    until = time.monotonic() + limit_s
    while not what() and time.monotonic() < until:
        began = time.monotonic()
        recorder.turn(began)
        longest = max(longest, time.monotonic() - began)
        time.sleep(0.005)
    return what()

recorder.note("drained", code="XID79")
hung = turn_until(lambda: recorder.failures >= 3, 20)
stuck = json.loads((spool.parent / "stuck" / "history.json").read_text())["pid"]
letter = Path(f"/proc/{stuck}/stat").read_text().rsplit(")", 1)[1].split()[0]
kept = spool.exists()
recorder.note("returned_to_service")
subprocess.run([sys.executable, "-I", server, "--end", str(folder)], check=True)
written = turn_until(lambda: recorder.pending == 0, 20)
events = [event.event for event in store.read(folder / "history").events]
print(json.dumps({"hung": hung, "state": letter, "kept": kept, "written": written,
                  "events": events, "left": spool.exists(), "slow": longest > 1.0}))
recorder.close()
"""


def test_a_hung_folder_delays_and_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "mnt").mkdir()
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT)
    words = [str(tmp_path / "mnt"), str(tmp_path / "state" / "spool"), str(hung_mount.__file__)]
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child=KILL",
         sys.executable, str(script), *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "hung": True,
        "state": "D",
        "kept": True,
        "written": True,
        "events": ["drained", "returned_to_service"],
        "left": False,
        "slow": False,
    }

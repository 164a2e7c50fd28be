"""The agent's log does not grow for ever. Tested in a separate process, because it replaces stderr."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import os, sys
from slurm_hooks.agent.own_log import keep_small
for number in range(30):
    sys.stderr.write(f"{number:02} " + "x" * 96 + "\\n")
    sys.stderr.flush()
    keep_small(1000)
"""


def written_to(path: Path) -> None:
    with path.open("w") as log:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run([sys.executable, "-c", _PROGRAM], stderr=log, env=env, check=True)


def test_a_log_that_is_too_large_is_rotated(tmp_path: Path) -> None:
    written_to(tmp_path / "agent.n1.log")
    found = {path.name: path.read_text().splitlines() for path in tmp_path.iterdir()}
    assert sorted(found) == ["agent.n1.log", "agent.n1.log.1"]
    assert all(sum(len(line) + 1 for line in lines) <= 1100 for lines in found.values())
    lines = found["agent.n1.log.1"] + found["agent.n1.log"]
    assert lines[-1].startswith("29 "), "nothing is lost at the rotation"


def test_a_file_that_is_not_a_log_stays(tmp_path: Path) -> None:
    written_to(tmp_path / "out")
    assert len((tmp_path / "out").read_text().splitlines()) == 30

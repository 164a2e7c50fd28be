"""`holdfast agent --wait`: a systemd unit takes over from an agent that a health check started."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from slurm_hooks.agent import lock

ROOT = Path(__file__).parents[2]


def second(config: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "slurm_hooks.agent", "--node", "w", "--config", str(config), *words],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_second_agent_exits_or_waits_until_the_first_stops(tmp_path: Path) -> None:
    config = tmp_path / "holdfast.yaml"
    config.write_text(
        f"paths: {{run: {tmp_path}/run, state: {tmp_path}/state, kmsg: {tmp_path}/none}}\n"
        "node: {expected_gpus: 0}\nslurm: {bin: /nowhere}\n"
        "checks: {clock: {mode: 'off'}}\n"
    )
    (tmp_path / "run").mkdir()
    held = lock.take(lock.path_in(tmp_path / "run"))
    assert held is not None
    leaves = second(config)
    assert leaves.wait(20) == 0
    assert "another agent is already running" in leaves.communicate()[1]
    waits = second(config, "--wait")
    try:
        time.sleep(1.5)
        assert waits.poll() is None
        assert not (tmp_path / "run/verdict").exists()
        os.close(held.fd)
        deadline = time.monotonic() + 20
        while not (tmp_path / "run/verdict").exists():
            assert time.monotonic() < deadline, "it did not take over"
            time.sleep(0.05)
        assert lock.holder(tmp_path / "run") == waits.pid
    finally:
        waits.terminate()
        assert waits.wait(20) == 0
        waits.communicate()

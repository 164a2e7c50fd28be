"""Looking after jobs, from the loop's side."""

from __future__ import annotations

import select
import time
from pathlib import Path

import pytest

from slurm_hooks import settings
from slurm_hooks.agent.jobs import Jobs


def test_no_user_can_fill_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Any user may put files into the folder, as fast as they are removed."""
    config = tmp_path / "holdfast.yaml"
    config.write_text(f"paths: {{run: {tmp_path}, state: {tmp_path}}}\nslurm: {{bin: /nowhere}}\n")
    jobs = Jobs(settings.load(config))
    made = [tmp_path / "jobs" / f"{number}.json" for number in range(200)]
    until, now = time.monotonic() + 20, 0.0
    for _ in range(2):
        for path in made:
            path.touch()
        while any(path.exists() for path in made) or jobs.workers:
            assert time.monotonic() < until
            jobs.turn(now)
            select.select([worker.fd for worker in jobs.workers], [], [], 0.01)
        now += 100.0
    jobs.close()
    told = capsys.readouterr().err.splitlines()
    removed = [line for line in told if "no marker of ours" in line]
    assert 2 <= len(removed) <= 120
    assert any("more happened than is told lines=140" in line for line in told)

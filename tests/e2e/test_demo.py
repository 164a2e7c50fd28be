"""The demo itself, as a user runs it: a real PyTorch training, every stage observed.

On one release: tests/e2e/job/test_whole_loop.py shows the same loop on each.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.readme_sample import masked, same_shape, sample

pytestmark = [pytest.mark.e2e, pytest.mark.one_release]

TOP = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(420)
def test_the_demo_observes_every_stage(release: str, tmp_path: Path) -> None:
    argv = [str(TOP / "scripts/demo"), "--skip-baseline", "--slurm", release]
    done = subprocess.run(
        [*argv, "--out", str(tmp_path)], capture_output=True, text=True, timeout=400, check=False
    )
    scene = tmp_path / "scene.txt"
    state = scene.read_text() if scene.exists() else ""
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:] + state
    found = json.loads((tmp_path / "demo.json").read_text())
    assert found["ok"] is True
    assert found["problems"] == []
    assert found["weights_sha256"]["holdfast"] == found["weights_sha256"]["reference"]
    assert found["stages"]["drain"]["evidence"].startswith("holdfast:")
    assert (tmp_path / "demo.png").stat().st_size > 20_000
    recording = (tmp_path / "demo-terminal.svg").read_text()
    assert "Every stage was observed." in done.stdout
    assert "Every stage was observed." in recording
    _compare_with_readme(done.stdout)


def _compare_with_readme(output: str) -> None:
    """The README's table has the lines of this run; numbers, and so the order, may differ."""
    table = output.partition("\nStages\n")[2].partition("\n\n")[0].splitlines()
    assert table[0] == sample()[0]
    run, page = sorted(map(masked, table[1:])), sorted(map(masked, sample()[1:]))
    different = [pair for pair in zip(run, page, strict=True) if not same_shape(*pair)]
    assert different == [], "copy the table of stages into README.md"

"""The demo on real kubelets, as a user runs it: deployed by Terraform, compared with the run without pods, removed.

Longer than .ci/run has time for: `scripts/test demo` runs it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from demonstration.output.report import SLOWEST
from demonstration.stages import CATALOGUE
from testbed.paths import cache
from testbed.pods import requirements
from testbed.terraform import find_terraform, is_built

pytestmark = [pytest.mark.e2e, pytest.mark.terraform, pytest.mark.timeout(2400)]

TOP = Path(__file__).resolve().parents[2]


def lacks() -> str:
    """What the demo needs and this machine has not; empty: nothing."""
    if os.geteuid() != 0:
        return "needs root: it starts boxes"
    if find_terraform() is None:
        return "no terraform or tofu on PATH"
    if not is_built(cache()):
        return "the provider is not built: run scripts/terraform once (about 4 minutes)"
    return requirements.missing()


def test_as_pods_the_demo_ends_as_without_pods_and_as_fast(tmp_path: Path) -> None:
    if reason := lacks():
        pytest.skip(reason)
    argv = [str(TOP / "scripts/demo"), "--terraform", "--out", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=2300, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    found = json.loads((tmp_path / "demo.json").read_text())
    assert found["ok"] is True
    assert found["problems"] == []
    assert found["stages"].keys() == CATALOGUE.keys()
    assert found["weights_sha256"]["holdfast"] == found["weights_sha256"]["reference"]
    assert found["stages"]["drain"]["evidence"].startswith("holdfast:")
    as_pods, without = (
        found["fault_to_next_step_s"],
        found["fault_to_next_step_without_pods_s"],
    )
    (shown,) = re.findall(r"As pods the next step took (\d+\.\d\d) times as long\.", done.stdout)
    assert float(shown) == pytest.approx(as_pods / without, abs=0.006)
    assert as_pods / without <= SLOWEST
    assert re.search(r"pod holdfast-bridge-\S+ on system-0: Running", done.stdout)
    agents = re.findall(r"pod holdfast-agent-\S+ on (computeinstance-\d): Running", done.stdout)
    assert sorted(agents) == [f"computeinstance-{index}" for index in range(4)]
    assert "objects of Holdfast left in Kubernetes: 0" in done.stdout
    assert "Every stage was observed." in done.stdout

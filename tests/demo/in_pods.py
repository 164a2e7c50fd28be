"""Runs the demo on real kubelets as a user does, and checks how it ended."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from demonstration.stages import CATALOGUE
from testbed.paths import cache
from testbed.pods import requirements
from testbed.terraform import find_terraform, is_built

TOP = Path(__file__).resolve().parents[2]


def _lacks() -> str:
    """What the demo needs and this machine has not; empty: nothing."""
    if os.geteuid() != 0:
        return "needs root: it starts boxes"
    if find_terraform() is None:
        return "no terraform or tofu on PATH"
    if not is_built(cache()):
        return "the provider is not built: run scripts/terraform once (about 4 minutes)"
    return requirements.missing()


def run(folder: Path, *more: str) -> tuple[str, dict[str, Any]]:
    """What ``scripts/demo --terraform`` printed, and its demo.json: it saw every stage and left nothing."""
    if reason := _lacks():
        pytest.skip(reason)
    argv = [str(TOP / "scripts/demo"), "--terraform", *more, "--out", str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=2300, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    found: dict[str, Any] = json.loads((folder / "demo.json").read_text())
    assert found["ok"] is True
    assert found["problems"] == []
    assert found["stages"].keys() == CATALOGUE.keys()
    assert found["weights_sha256"]["holdfast"] == found["weights_sha256"]["reference"]
    assert found["stages"]["drain"]["evidence"].startswith("holdfast:")
    assert re.search(r"pod holdfast-bridge-\S+ on system-0: Running", done.stdout)
    agents = re.findall(r"pod holdfast-agent-\S+ on (computeinstance-\d): Running", done.stdout)
    assert sorted(agents) == [f"computeinstance-{index}" for index in range(4)]
    assert "objects of Holdfast left in Kubernetes: 0" in done.stdout
    assert "Every stage was observed." in done.stdout
    return done.stdout, found

"""The demo as pods beside the run without pods, on an otherwise idle machine: `scripts/test demo` runs it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from demonstration.output.report import SLOWEST

from tests.demo import in_pods

pytestmark = [pytest.mark.e2e, pytest.mark.terraform, pytest.mark.timeout(2400)]


def test_as_pods_the_next_step_comes_about_as_fast_as_without(tmp_path: Path) -> None:
    shown, found = in_pods.run(tmp_path)
    ratio = found["fault_to_next_step_s"] / found["fault_to_next_step_without_pods_s"]
    assert ratio <= SLOWEST
    (printed,) = re.findall(r"As pods the next step took (\d+\.\d\d) times as long\.", shown)
    assert float(printed) == pytest.approx(ratio, abs=0.006)

"""`scripts/demo --terraform` ends as it should: deployed, drained, requeued, resumed bit for bit, returned, removed.

Its time beside the run without pods is in tests/demo: other tests at the same time would change it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.demo import in_pods

pytestmark = [pytest.mark.terraform, pytest.mark.timeout(2400)]


def test_the_demo_as_pods(tmp_path: Path) -> None:
    shown, found = in_pods.run(tmp_path, "--skip-baseline")
    assert found["fault_to_next_step_s"] > 0
    assert found["fault_to_next_step_without_pods_s"] is None
    assert "plain Slurm: not run" in shown

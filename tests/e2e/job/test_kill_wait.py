"""Tasks that ignore SIGTERM, with the KillWait of Soperator: Slurm alone would wait three minutes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from testbed.box import Box

from tests.e2e import cluster
from tests.e2e.job import training

pytestmark = pytest.mark.e2e

_KILL_WAIT_S = 180
_SOON_S = 20
_TASK = """
say() { echo "$1 at $(date +%s)"; }
[ "$HOLDFAST_ATTEMPT" = 1 ] || { say again; exit 0; }
[ "$SLURM_PROCID" != 1 ] || { sleep 1; say failed; exit 1; }
trap "" TERM
while :; do sleep 0.2; done
"""


def _configured(box: Box) -> str:
    shown = box.run(["scontrol", "show", "config"], check=False).stdout
    found = re.search(r"^KillWait += (\d+) sec", shown, re.MULTILINE)
    return found[1] if found else ""


def _configure(box: Box, before_s: int, after_s: int) -> None:
    path = box.path("/etc/slurm/slurm.conf")
    text = path.read_text()
    assert f"KillWait={before_s}\n" in text
    path.write_text(text.replace(f"KillWait={before_s}\n", f"KillWait={after_s}\n"))
    box.run(["scontrol", "reconfigure"])
    cluster.wait_for(lambda: _configured(box) == str(after_s), f"KillWait={after_s}", 60)
    cluster.wait_for(lambda: cluster.all_in_service(box), "all nodes in service", 60)


@pytest.fixture
def patient_box(clean_box: Box) -> Iterator[Box]:
    """Slurm that waits for long between SIGTERM and SIGKILL."""
    _configure(clean_box, 2, _KILL_WAIT_S)
    yield clean_box
    _configure(clean_box, _KILL_WAIT_S, 2)


def test_tasks_that_ignore_sigterm_do_not_delay_the_next_attempt(patient_box: Box) -> None:
    job = training.submit(patient_box, rank=_TASK)
    job.wait_state("COMPLETED", _KILL_WAIT_S)
    said = dict(re.findall(r"(failed|again) at (\d+)", job.log()))
    assert int(said["again"]) - int(said["failed"]) <= _SOON_S, job.log()
    assert job.restarts == 0

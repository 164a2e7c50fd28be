"""A few of the ways for a job to die that ``scripts/bench deaths`` causes, all at once."""

from __future__ import annotations

import pytest
from measure.deaths import campaign
from measure.deaths.catalogue import DEATHS
from measure.deaths.job import install
from testbed.box import Box

pytestmark = pytest.mark.e2e

_FAST = {
    "signal-kill",
    "host-out-of-memory",
    "import-error",
    "connection-refused",
    "torn-checkpoint",
    "unloadable-checkpoint",
    "hup-step",
    "admin-suspend",
    "admin-requeuehold",
    "script-killed",
    "mpi-abort",
    "kill-step-ctld",
    "slurmstepd-killed",
    "array-shared",
    "cancel-requeued",
    "error-after-progress",
    "kill-batch",
    "oom-kill",
    "segv-twice",
    "host-out-of-memory-there",
    "nan-on-one-node",
    "type-error",
}


def test_the_right_action_follows(clean_box: Box) -> None:
    chosen = [death for death in DEATHS if death.name in _FAST]
    assert len(chosen) == len(_FAST)
    install(clean_box)
    results = campaign.run(clean_box, chosen, lambda _: None)
    wrong = [
        f"{result.death.name}: {'; '.join(result.problems)}\n{result.log}"
        for result in results
        if result.problems
    ]
    assert not wrong, "\n\n".join(wrong)

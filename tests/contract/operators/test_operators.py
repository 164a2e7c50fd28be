"""The operators of other projects really run beside the bridge, in random histories.

Only with their programs, which nothing here builds: ``HOLDFAST_SLINKY_MANAGER=PROGRAM`` (slurm-operator's
``cmd/manager``) and ``HOLDFAST_SOPERATORCHECKS=PROGRAM`` (Soperator's ``cmd/soperatorchecks``). As many histories as
fit into 60 s, or ``HOLDFAST_BRIDGE_HISTORIES_S``; ``HOLDFAST_BRIDGE_HISTORY=NAME`` repeats one that failed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from testbed.kube.local import ApiServer

from k8s_bridge.config import BridgeConfig
from tests.contract.operators import histories

LASTS_S = float(os.environ.get("HOLDFAST_BRIDGE_HISTORIES_S", "60"))
REPEATED = os.environ.get("HOLDFAST_BRIDGE_HISTORY", "")

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="a slurmctld of its own needs root"),
    pytest.mark.timeout(LASTS_S + 600),
]


@pytest.mark.parametrize("project", histories.PROJECTS)
def test_nothing_of_a_person_is_lost_and_all_come_to_rest(
    project: str, api_server: ApiServer, bridge_policy: BridgeConfig, tmp_path: Path
) -> None:
    variable = histories.PROJECTS[project].variable
    program = os.environ.get(variable)
    if not program:
        pytest.skip(f"{variable} names no program")
    run: Callable[..., histories.Record] = histories.run
    record = run(
        project, Path(program), api_server, bridge_policy, tmp_path, lasts_s=LASTS_S, only=REPEATED
    )
    assert REPEATED or {"drains", "undrains of slurm"} <= record.seen.keys(), record
    if project == "slinky":
        assert record.taken == (), record

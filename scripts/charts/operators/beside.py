"""An operator's program beside the bridge, in random histories of persons, agents and replaced machines, on a real
slurmctld and a real API server. The histories are those of the tests (``tests/contract/operators``).
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from testbed.kube import Worker, bridge_kubeconfig, provision
from testbed.kube.local import ApiServer

from charts.chart import Tools
from charts.errors import NotHeld
from k8s_bridge.config import BridgeConfig


def histories(
    checkout: Path, tools: Tools, project: str, program: Path, lasts_s: float
) -> dict[str, Any]:
    """What was seen. Raises ``NotHeld`` if the bridge did something wrong or they did not come to rest."""
    from tests.contract.operators import histories as tests  # noqa: PLC0415 - tests are no package
    from tests.unit.k8s_bridge.fake_cluster import Violation  # noqa: PLC0415

    print(f"{project}: beside the bridge for {lasts_s:.0f} s …", flush=True)
    head = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()
    folder = tools.folder / "beside"
    folder.mkdir()
    with ApiServer(folder / "kube") as server:
        provision(server.kubectl, [Worker(pod="w", node="computeinstance-0", address="10.77.0.1")])
        file = folder / "bridge-kubeconfig"
        file.write_text(bridge_kubeconfig(server.kubectl, server.plane))
        bridge = BridgeConfig(kubeconfig=str(file), timeout_s=5)
        try:
            found = tests.run(project, program, server, bridge, folder, lasts_s=lasts_s)
        except Violation as error:
            raise NotHeld(str(error)) from None
    return {
        "beside": {
            "commit": commit,
            "histories": found.histories,
            "steps": found.steps,
            "bridge_writes": found.bridge_writes,
            "operator": dict(sorted(found.seen.items())),
            "taken_from_persons": sorted(set(found.taken)),
        }
    }

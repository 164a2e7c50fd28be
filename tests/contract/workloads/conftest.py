"""One API server with the definitions, the namespaces and the bridge's rights of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from testbed.kube.local import ApiServer

from k8s_bridge.config import BridgeConfig
from tests.contract.workloads.workload_cluster import WorkloadCluster


@pytest.fixture(scope="session")
def installed(api_server: ApiServer, bridge_policy: BridgeConfig) -> WorkloadCluster:
    made = WorkloadCluster(api_server, bridge_policy)
    made.install()
    return made


@pytest.fixture
def cluster(installed: WorkloadCluster, bridge_policy: BridgeConfig) -> Iterator[WorkloadCluster]:
    yield WorkloadCluster(installed.admin, bridge_policy)
    installed.clear()

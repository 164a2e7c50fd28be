"""A real API server with two nodes, and the bridge's own account on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from testbed.kube import Worker, bridge_kubeconfig, provision
from testbed.kube.local import ApiServer

from k8s_bridge.config import BridgeConfig


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("kube")) as running:
        workers = [
            Worker(pod=f"worker-{i}", node=f"computeinstance-{i}", address=f"10.77.0.{i + 1}")
            for i in range(2)
        ]
        provision(running.kubectl, workers)
        yield running


@pytest.fixture(scope="session")
def bridge_policy(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> BridgeConfig:
    file = tmp_path_factory.mktemp("bridge") / "kubeconfig"
    file.write_text(bridge_kubeconfig(api_server.kubectl, api_server.plane))
    return BridgeConfig(kubeconfig=str(file), timeout_s=5)

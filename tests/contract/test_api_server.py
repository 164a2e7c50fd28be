"""The control plane of the sandbox, real, on this host's loopback: what it must do for
everything built on it.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from testbed.kube import Worker, bridge_kubeconfig, provision
from testbed.kube.local import ApiServer, KubectlError

WORKERS = [
    Worker(pod=f"worker-{index}", node=f"computeinstance-{index}", address=f"10.77.0.{index + 1}")
    for index in range(4)
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("kube")) as running:
        provision(running.kubectl, WORKERS)
        yield running


@pytest.fixture(scope="module")
def bridge(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bridge's credentials."""
    file = tmp_path_factory.mktemp("bridge") / "kubeconfig"
    file.write_text(bridge_kubeconfig(server.kubectl, server.plane))
    return file


def items(server: ApiServer, *args: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(server.kubectl("get", *args, "-o", "json"))["items"]
    return found


def test_every_slurm_node_has_a_ready_node_with_eight_gpus(server: ApiServer) -> None:
    ready = "{.status.conditions[?(@.type=='Ready')].status}"
    line = f"{{.metadata.name}} {{.status.capacity.nvidia\\.com/gpu}} {ready}"
    got = server.kubectl(
        "get", "nodes", "-o", f"jsonpath={{range .items[*]}}{line}{{'\\n'}}{{end}}"
    )
    assert got.splitlines() == [f"computeinstance-{index} 8 True" for index in range(4)]


def test_new_nodes_can_be_scheduled_on(server: ApiServer) -> None:
    got = server.kubectl("get", "nodes", "-o", "jsonpath={.items[*].spec.taints[*].key}")
    assert set(got.split()) == {"nvidia.com/gpu"}


def test_worker_pods_run_on_their_nodes_and_are_found_by_soperators_labels(
    server: ApiServer,
) -> None:
    labels = "app.kubernetes.io/name=slurmcluster,app.kubernetes.io/component=nodeset"
    line = "{.metadata.name} {.spec.nodeName} {.status.phase} {.status.podIP}"
    got = server.kubectl(
        "get",
        "pods",
        "-n",
        "soperator",
        "-l",
        labels,
        "-o",
        f"jsonpath={{range .items[*]}}{line}{{'\\n'}}{{end}}",
    )
    assert got.splitlines() == [
        f"worker-{i} computeinstance-{i} Running 10.77.0.{i + 1}" for i in range(4)
    ]


def test_provisioning_twice_changes_nothing(server: ApiServer) -> None:
    before = [item["metadata"] for item in items(server, "nodes,pods", "-A")]
    provision(server.kubectl, WORKERS)
    after = [item["metadata"] for item in items(server, "nodes,pods", "-A")]
    assert [_identity(item) for item in before] == [_identity(item) for item in after]


def _identity(metadata: object) -> tuple[object, object]:
    assert isinstance(metadata, dict)
    return metadata["name"], metadata["uid"]


def test_the_bridge_may_do_its_work(server: ApiServer, bridge: Path) -> None:
    assert "computeinstance-3" in server.kubectl("get", "nodes", kubeconfig=bridge)
    server.kubectl("cordon", "computeinstance-3", kubeconfig=bridge)
    server.kubectl("uncordon", "computeinstance-3", kubeconfig=bridge)
    condition = {"status": {"conditions": [{"type": "HoldfastSlurmBusy", "status": "True"}]}}
    patch_status(bridge, "computeinstance-3", condition)
    got = server.kubectl(
        "get",
        "node",
        "computeinstance-3",
        "-o",
        "jsonpath={.status.conditions[*].type}",
        kubeconfig=bridge,
    )
    assert {"HoldfastSlurmBusy", "Ready"} <= set(got.split())


def patch_status(kubeconfig: Path, node: str, patch: object) -> None:
    """A single PATCH: kubectl would need the right to read the status first."""
    config = json.loads(kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    request = urllib.request.Request(  # noqa: S310 - https, from our own kubeconfig
        f"{cluster['server']}/api/v1/nodes/{node}/status",
        data=json.dumps(patch).encode(),
        method="PATCH",
        headers={
            "Authorization": f"Bearer {config['users'][0]['user']['token']}",
            "Content-Type": "application/strategic-merge-patch+json",
        },
    )
    context = ssl.create_default_context(cadata=authority)
    with urllib.request.urlopen(request, timeout=10, context=context) as answer:  # noqa: S310
        assert answer.status == 200


@pytest.mark.parametrize(
    "forbidden",
    [
        ["delete", "node", "computeinstance-0"],
        ["get", "secrets", "-A"],
        ["delete", "pod", "worker-0", "-n", "soperator"],
        ["create", "namespace", "elsewhere"],
    ],
    ids=" ".join,
)
def test_the_bridge_may_do_nothing_else(
    server: ApiServer, bridge: Path, forbidden: list[str]
) -> None:
    with pytest.raises(
        KubectlError, match='is forbidden: User "system:serviceaccount:holdfast:holdfast-bridge"'
    ):
        server.kubectl(*forbidden, kubeconfig=bridge)


def test_a_stranger_learns_nothing(server: ApiServer, tmp_path: Path) -> None:
    stranger = tmp_path / "kubeconfig"
    stranger.write_text(server.plane.kubeconfig({"token": "made-up"}))
    with pytest.raises(KubectlError, match=r"Unauthorized|logged in"):
        server.kubectl("get", "nodes", kubeconfig=stranger)


def test_the_audit_log_shows_who_wrote_to_a_node(server: ApiServer, bridge: Path) -> None:
    server.kubectl("label", "node", "computeinstance-2", "holdfast.dev/test=audit")
    server.kubectl("cordon", "computeinstance-2", kubeconfig=bridge)
    server.kubectl("uncordon", "computeinstance-2", kubeconfig=bridge)
    writes = [json.loads(line) for line in server.plane.audit_log.read_text().splitlines()]
    seen = {
        (write["user"]["username"], write["verb"])
        for write in writes
        if write["objectRef"]["resource"] == "nodes"
        and write["objectRef"].get("name") == "computeinstance-2"
    }
    assert {
        ("kubernetes-admin", "patch"),
        ("system:serviceaccount:holdfast:holdfast-bridge", "patch"),
    } <= seen
    assert not any(write["verb"] in ("get", "list", "watch") for write in writes)


def test_a_restarted_api_server_has_all_its_data(server: ApiServer, bridge: Path) -> None:
    server.kubectl("label", "node", "computeinstance-1", "holdfast.dev/test=kept")
    server.stop()
    with pytest.raises(KubectlError, match="refused"):
        server.kubectl("get", "nodes")
    server.start()
    assert "computeinstance-1" in server.kubectl(
        "get", "nodes", "-l", "holdfast.dev/test=kept", kubeconfig=bridge
    )


def test_daemons_of_a_killed_test_run_are_gone(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from testbed.kube.local import ApiServer\n"
        f"server = ApiServer(Path({str(tmp_path)!r})); server.start()\n"
        "print(*(child.pid for child in server._running.values()), flush=True); time.sleep(60)"
    )
    paths = os.pathsep.join(["scripts", "."])
    run = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    with run:
        assert run.stdout
        pids = [int(word) for word in run.stdout.readline().split()]
        run.send_signal(signal.SIGKILL)
    assert len(pids) == 2
    end = time.monotonic() + 5
    while any(_runs(pid) for pid in pids):
        assert time.monotonic() < end, f"{pids} outlived the process that started them"
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    """A zombie process does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False

"""docs/howto/install-bridge.md on a cluster without Holdfast: install, and remove without a trace in Kubernetes.

No kubelet runs here, so no pod starts: the bridge runs as the process that the page describes too.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from testbed.box import Box
from testbed.errors import SandboxError
from testbed.namespaces import enter
from testbed.shape import kube_name
from testbed.startup import control_plane

from holdfast.version import VERSION
from tests.e2e import cluster
from tests.e2e.install.page import Page, changed, without
from tests.e2e.install.person import Person, slurm_alone

pytestmark = [pytest.mark.e2e, pytest.mark.one_release, pytest.mark.timeout(600)]

NOT_RUN = {
    "useradd": "the sandbox has the user",
    "echo '17 * * * *": "no cron runs in the sandbox",
    "podman build": "no container engine; tests/packages builds the image",
    "holdfast render deployment --set adapter=rest": "another adapter",
    "kubectl -n soperator get secret": "the side-cars are tested with pods (tests/terraform)",
}
_OTHERS = ("events", "leases")
PROGRAM = f"""
python3 -m venv /opt/holdfast
/opt/holdfast/bin/pip wheel --no-deps -w dist .
/opt/holdfast/bin/pip install "dist/holdfast-{VERSION}-py3-none-any.whl[bridge]"
mkdir -p /etc/holdfast
echo "bridge: {{poll_s: 0.5}}" >/etc/holdfast/holdfast.yaml
echo sha256:{"0" * 64} >digest
"""
_BRIDGE = """
export KUBECONFIG=/etc/holdfast/kubeconfig
cd /
holdfast bridge --plan || [ $? = 1 ]  # there are changes
setsid holdfast bridge >/tmp/bridge.log 2>&1 &
"""
"""The page's two commands, as user holdfast."""


@pytest.fixture
def box(release: str) -> Iterator[Box]:
    running = slurm_alone(release, nodes=2)
    yield running
    running.down()


def objects(box: Box) -> dict[str, Any]:
    """All objects of the cluster, without what the server counts."""
    kinds = box.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    asked = ",".join(kind for kind in kinds if kind.split(".")[0] not in _OTHERS)
    items = json.loads(box.kubectl("get", asked, "--all-namespaces", "-o", "json"))["items"]
    return {
        f"{one['kind']}/{one['metadata'].get('namespace', '')}/{one['metadata']['name']}": {
            **{name: value for name, value in one.items() if name != "metadata"},
            "labels": one["metadata"].get("labels"),
            "annotations": one["metadata"].get("annotations"),
        }
        for one in items
    }


class Controllers:
    """Ends a namespace that is deleted, as kube-controller-manager does: none runs here."""

    def __init__(self, box: Box) -> None:
        self._box, self._end = box, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(0.5):
            with contextlib.suppress(SandboxError):
                self._finish()

    def _finish(self) -> None:
        space = json.loads(self._box.kubectl("get", "namespace", "holdfast", "-o", "json"))
        if space["status"]["phase"] != "Terminating":
            return
        kinds = "deployments,configmaps,secrets,serviceaccounts,roles,rolebindings"
        self._box.kubectl("delete", kinds, "--all", "-n", "holdfast")
        space["spec"]["finalizers"] = []
        path = "/api/v1/namespaces/holdfast/finalize"
        self._box.kubectl("replace", "--raw", path, "-f", "-", stdin=json.dumps(space))


def test_kubernetes_is_as_it_was_found(box: Box) -> None:
    untouched = objects(box)
    person = Person(box, Page("install-bridge.md", NOT_RUN))
    install(person)
    start(person)
    by_agent, by_person = box.shape.node_names
    drained = ["state=drain", "reason=holdfast:XID79: GPU 3 has fallen off the bus"]
    box.run(["scontrol", "update", f"nodename={by_agent}", *drained])
    box.kubectl("cordon", kube_name(by_person))
    cluster.wait_for(lambda: cluster.cordoned(box, by_agent), "a cordon by the bridge")
    cluster.wait_for(lambda: bool(cluster.taints(box, by_agent)), "a taint by the bridge")
    cluster.wait_for(lambda: cluster.drained(box, by_person), "a drain by the bridge")

    # The removal's steps 1 and 2, and the cordon of the person.
    box.run(["scontrol", "update", f"nodename={by_agent}", "state=resume"])
    box.kubectl("uncordon", kube_name(by_person))
    cluster.wait_for(lambda: not cluster.cordoned(box, by_agent), "uncordoned by the bridge")
    cluster.wait_for(lambda: not cluster.taints(box, by_agent), "untainted by the bridge")
    cluster.wait_for(lambda: cluster.in_service(box, by_person), "the end of the bridge's drain")
    remove(person)
    assert objects(box) == untouched
    assert person.page.never_run() == []


def install(person: Person) -> None:
    person.check_out(VERSION)
    person.on_a_node(PROGRAM)
    person.on_the_controller(person.page.block("holdfast render rbac"))
    first = person.page.block("kubectl -n holdfast create configmap holdfast-off")
    for of_pods in ("rollout", "logs", "exec"):
        first = without(first, f"kubectl -n holdfast {of_pods}")
    assert "holdfast-bridge created" in person.on_the_controller(first)
    said = person.on_the_controller(person.page.block("cat >bridge.yaml"))
    assert "configmap/holdfast-bridge configured" in said


def start(person: Person) -> None:
    assert "holdfast bridge --plan" in person.page.block("holdfast bridge --plan")
    control_plane.log_in(person.box)
    person.box.run(["sh", "-euc", _BRIDGE], user="holdfast")
    cluster.wait_for(
        lambda: cluster.condition(person.box, "worker-0", "HoldfastSlurmReady") == "True",
        "the bridge's conditions",
        scene=lambda: person.box.path("/tmp/bridge.log").read_text(),
    )


def remove(person: Person) -> None:
    commands = person.page.block("kubectl get nodes -L holdfast.dev/slurm-state\n")
    for not_applied in ("holdfast render worker-pods", "holdfast render workloads-rbac"):
        commands = without(commands, not_applied)
    deleted = "kubectl -n holdfast delete deployment,configmap holdfast-bridge\n"
    # With the Deployment its pod ends: here, the process.
    commands = changed(commands, deleted, f"{deleted}kill $(cat /tmp/bridge.pid)\nsleep 1\n")
    box = person.box
    (pid,) = [pid for pid, argv in box.pids("controller") if argv[-1:] == ["bridge"]]
    box.path("/tmp/bridge.pid").write_text(f"{enter.innermost_pid(pid)}\n")
    with Controllers(box):
        person.on_the_controller(commands)
        cluster.wait_for(lambda: "Namespace//holdfast" not in objects(box), "no namespace", 30)

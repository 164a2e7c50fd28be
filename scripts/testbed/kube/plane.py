"""One control plane: its files, its two daemons and its clients' settings. Starts nothing itself."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from testbed.errors import SandboxError
from testbed.kube import pki
from testbed.kube.programs import Binaries

SERVICE_CIDR = "10.96.0.0/16"
_SERVICE_ADDRESS = "10.96.0.1"
_NAMES = (
    "localhost",
    "controller",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
_ISSUER = "https://kubernetes.default.svc.cluster.local"

AUDIT_POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    # One line for each completed write: user, object, time, result.
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Metadata",
            "verbs": ["create", "update", "patch", "delete", "deletecollection"],
            "resources": [
                {
                    "group": "",
                    "resources": [
                        "nodes",
                        "nodes/status",
                        "events",
                        "pods",
                        "pods/status",
                        "pods/eviction",
                    ],
                },
                {"group": "events.k8s.io", "resources": ["events"]},
            ],
        },
        {"level": "None"},
    ],
}


class Kubectl(Protocol):
    """Runs kubectl as admin where the API server can be reached.

    Returns its standard output; raises ``SandboxError`` (or one of its kinds) when it fails.
    """

    def __call__(self, *args: str, stdin: str | None = None) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A process to keep running. Paths are as the daemon sees them."""

    name: str
    argv: tuple[str, ...]
    log: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """etcd and kube-apiserver.

    ``folder`` holds all files, as this process sees them; ``inside`` is the same folder and
    ``binaries`` are the programs as the daemons see them. The API server listens on ``listen`` (by
    default on all addresses); clients use ``address`` or loopback. etcd listens on a Unix socket
    only.
    """

    folder: Path
    inside: Path
    binaries: Binaries
    address: str
    listen: str = "0.0.0.0"  # noqa: S104 - a box has its own network
    port: int = 6443
    kubelets: bool = False
    """Whether kubelets and controllers run: the API server then reaches kubelets, and publishes its address."""

    def prepare(self) -> None:
        """Write certificates, audit policy and the admin's kubeconfig; existing keys and data are kept."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if len(str(self._socket)) > 100:  # sockaddr_un takes 108 bytes
            raise SandboxError(
                f"{self._socket} is too long for a Unix socket; choose a shorter folder"
            )
        addresses = dict.fromkeys(("127.0.0.1", self.address, _SERVICE_ADDRESS))
        pki.make(self.folder / "pki", tuple(addresses), _NAMES)
        (self.folder / "audit-policy.json").write_text(json.dumps(AUDIT_POLICY, indent=1))
        admin = self.folder / "admin.kubeconfig"
        admin.touch(mode=0o600)
        admin.write_text(self.kubeconfig(certificate_user(self.folder / "pki")))

    def daemons(self) -> tuple[Daemon, ...]:
        """etcd, then kube-apiserver, which waits for etcd. Call ``prepare`` first."""
        return (
            Daemon(name="etcd", argv=self._etcd(), log=self.inside / "etcd.log"),
            Daemon(
                name="kube-apiserver",
                argv=self._apiserver(),
                log=self.inside / "kube-apiserver.log",
            ),
        )

    def kubeconfig(self, user: dict[str, str], host: str = "127.0.0.1") -> str:
        """A kubeconfig for this API server at ``host`` (default: loopback), as JSON (valid YAML)."""
        authority = base64.b64encode((self.folder / "pki" / pki.CA).read_bytes()).decode()
        cluster = {
            "server": f"https://{host}:{self.port}",
            "certificate-authority-data": authority,
        }
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "sandbox", "cluster": cluster}],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "user"}}],
            "current-context": "sandbox",
        }
        return json.dumps(content, indent=1) + "\n"

    @property
    def admin_kubeconfig(self) -> Path:
        """As a process beside the daemons sees it."""
        return self.inside / "admin.kubeconfig"

    @property
    def audit_log(self) -> Path:
        """As this process sees it. One JSON object a line."""
        return self.folder / "audit.log"

    @property
    def _socket(self) -> Path:
        return self.inside / "etcd.sock"

    def _etcd(self) -> tuple[str, ...]:
        return (
            str(self.binaries.etcd),
            "--name=sandbox",
            f"--data-dir={self.inside / 'etcd'}",
            f"--listen-client-urls=unix://{self._socket}",
            f"--listen-peer-urls=unix://{self.inside / 'etcd-peer.sock'}",
            # advertised to other members, and there are none
            "--advertise-client-urls=http://localhost:2379",
            "--initial-advertise-peer-urls=http://localhost:2380",
            "--initial-cluster=sandbox=http://localhost:2380",
            # a sandbox survives the exit of its daemons, not a crash of the machine
            "--unsafe-no-fsync",
            "--log-level=warn",
        )

    def _apiserver(self) -> tuple[str, ...]:
        keys = self.inside / "pki"
        token_key = str(keys / pki.TOKEN_KEY)
        return (
            str(self.binaries.kube_apiserver),
            f"--etcd-servers=unix://{self._socket}",
            f"--bind-address={self.listen}",
            f"--advertise-address={self.address}",
            f"--secure-port={self.port}",
            f"--tls-cert-file={keys / pki.SERVER}",
            f"--tls-private-key-file={keys / pki.SERVER_KEY}",
            f"--client-ca-file={keys / pki.CA}",
            f"--service-account-issuer={_ISSUER}",
            f"--service-account-key-file={token_key}",
            f"--service-account-signing-key-file={token_key}",
            f"--service-cluster-ip-range={SERVICE_CIDR}",
            "--allow-privileged=true",  # for slurmd's container
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            *(self._for_kubelets() if self.kubelets else _WITHOUT_CONTROLLERS),
            f"--audit-policy-file={self.inside / 'audit-policy.json'}",
            f"--audit-log-path={self.inside / 'audit.log'}",
            "--audit-log-mode=blocking",
            "--profiling=false",
        )

    def _for_kubelets(self) -> tuple[str, ...]:
        keys = self.inside / "pki"
        return (
            f"--kubelet-client-certificate={keys / pki.ADMIN}",
            f"--kubelet-client-key={keys / pki.ADMIN_KEY}",
            "--kubelet-preferred-address-types=InternalIP",
        )


_WITHOUT_CONTROLLERS = (
    "--endpoint-reconciler-type=none",
    # It taints every new Node not-ready until the node-lifecycle controller removes the taint.
    "--disable-admission-plugins=TaintNodesByCondition",
)


def certificate_user(folder: Path) -> dict[str, str]:
    """The admin's entry in a kubeconfig, from the certificate in ``folder``."""
    files = {"client-certificate-data": pki.ADMIN, "client-key-data": pki.ADMIN_KEY}
    return {
        field: base64.b64encode((folder / name).read_bytes()).decode()
        for field, name in files.items()
    }


def kubectl_argv(kubectl: Path, kubeconfig: Path, args: Sequence[str]) -> list[str]:
    """Command line of kubectl, with its cache beside the kubeconfig."""
    cache = kubeconfig.parent / "kubectl-cache"
    return [str(kubectl), f"--kubeconfig={kubeconfig}", f"--cache-dir={cache}", *args]


def wait_ready(
    kubectl: Kubectl, *, alive: Callable[[], None] = lambda: None, timeout_s: float = 180.0
) -> None:
    """Wait until the API server is ready, its RBAC roles included.

    ``alive`` is called before each try and may raise to end the wait. Raises ``SandboxError``.
    """
    end = time.monotonic() + timeout_s
    while True:
        alive()
        try:
            kubectl("get", "--raw=/readyz", "--request-timeout=2s")
            return
        except SandboxError as error:
            if time.monotonic() > end:
                problem = " ".join(str(error).split())[-300:]
                raise SandboxError(
                    f"the API server was not ready after {timeout_s:g} s: {problem}"
                ) from None
            time.sleep(0.1)

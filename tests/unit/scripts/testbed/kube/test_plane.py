"""Files and command lines of a control plane."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

import pytest
from testbed.errors import SandboxError
from testbed.kube import Binaries, ControlPlane, kubectl_argv, wait_ready
from testbed.kube.plane import AUDIT_POLICY

INSIDE = Path("/var/lib/kube")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> ControlPlane:
    made = ControlPlane(
        folder=tmp_path_factory.mktemp("kube"),
        inside=INSIDE,
        binaries=Binaries.of(Path("/opt/kube/bin")),
        address="10.77.0.254",
    )
    made.prepare()
    return made


def test_every_path_of_a_daemon_exists_where_the_daemon_runs(plane: ControlPlane) -> None:
    etcd, server = plane.daemons()
    assert (etcd.name, server.name) == ("etcd", "kube-apiserver")
    assert etcd.argv[0] == "/opt/kube/bin/etcd"
    assert etcd.log == INSIDE / "etcd.log"
    words = " ".join([*etcd.argv, *server.argv])
    assert str(plane.folder) not in words
    named = [word.partition("=")[2] for word in server.argv if f"={INSIDE}" in word]
    files = [
        plane.folder / Path(path).relative_to(INSIDE)
        for path in named
        if not path.endswith("audit.log")
    ]
    assert len(files) == 6
    assert all(file.is_file() for file in files)


def test_the_api_server_authenticates_and_authorizes(plane: ControlPlane) -> None:
    words = plane.daemons()[1].argv
    assert "--authorization-mode=Node,RBAC" in words
    assert "--etcd-servers=unix:///var/lib/kube/etcd.sock" in words
    assert "--advertise-address=10.77.0.254" in words
    assert "--service-cluster-ip-range=10.96.0.0/16" in words
    assert not [
        word
        for word in words
        if word.startswith(("--token-auth-file", "--insecure", "--anonymous"))
    ]


def test_preparing_again_keeps_the_keys(plane: ControlPlane) -> None:
    before = {path: path.read_bytes() for path in (plane.folder / "pki").iterdir()}
    plane.prepare()
    assert before == {path: path.read_bytes() for path in (plane.folder / "pki").iterdir()}


def test_secrets_are_readable_by_their_owner_only(plane: ControlPlane) -> None:
    secret = [*plane.folder.glob("pki/*.key"), plane.folder / "admin.kubeconfig"]
    assert len(secret) == 5
    assert {path.stat().st_mode & 0o077 for path in secret} == {0}


@pytest.mark.parametrize(("name", "usage"), [("apiserver", "sslserver"), ("admin", "sslclient")])
def test_certificates_are_valid_for_their_purpose_only(
    plane: ControlPlane, name: str, usage: str
) -> None:
    def verifies(purpose: str) -> bool:
        argv = ["openssl", "verify", "-CAfile", "ca.crt", "-purpose", purpose, f"{name}.crt"]
        return (
            subprocess.run(
                argv, cwd=plane.folder / "pki", capture_output=True, check=False
            ).returncode
            == 0
        )

    other = {"sslserver": "sslclient", "sslclient": "sslserver"}[usage]
    assert verifies(usage)
    assert not verifies(other)


def test_the_servers_certificate_covers_loopback_and_its_address(plane: ControlPlane) -> None:
    for address in ("127.0.0.1", "10.77.0.254"):
        argv = ["openssl", "verify", "-CAfile", "ca.crt", "-verify_ip", address, "apiserver.crt"]
        subprocess.run(argv, cwd=plane.folder / "pki", capture_output=True, check=True)


def test_the_admins_kubeconfig_is_complete(plane: ControlPlane) -> None:
    config = json.loads((plane.folder / "admin.kubeconfig").read_text())
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"
    certificate = base64.b64decode(config["users"][0]["user"]["client-certificate-data"])
    assert certificate == (plane.folder / "pki" / "admin.crt").read_bytes()


def test_reads_are_not_audited() -> None:
    audited, rest = AUDIT_POLICY["rules"]
    assert not {"get", "list", "watch"} & set(audited["verbs"])
    assert rest == {"level": "None"}
    assert {"nodes", "nodes/status", "events"} <= set(audited["resources"][0]["resources"])


def test_a_path_too_long_for_a_socket_is_refused_at_once(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)
    plane = ControlPlane(
        folder=deep, inside=deep, binaries=Binaries.of(tmp_path), address="127.0.0.1"
    )
    with pytest.raises(SandboxError, match="too long for a Unix socket; choose a shorter folder"):
        plane.prepare()


def test_kubectl_keeps_its_cache_out_of_the_users_home() -> None:
    argv = kubectl_argv(
        Path("/opt/kube/bin/kubectl"), INSIDE / "admin.kubeconfig", ["get", "nodes"]
    )
    assert argv == [
        "/opt/kube/bin/kubectl", "--kubeconfig=/var/lib/kube/admin.kubeconfig",
        "--cache-dir=/var/lib/kube/kubectl-cache", "get", "nodes",
    ]  # fmt: skip


def test_waiting_ends_when_the_server_is_ready_or_reports_why_it_is_not() -> None:
    refusals = [SandboxError("connection refused"), SandboxError("not yet")]

    def kubectl(*args: str, stdin: str | None = None) -> str:
        assert "--raw=/readyz" in args
        if refusals:
            raise refusals.pop(0)
        return "ok"

    wait_ready(kubectl)
    assert refusals == []

    def refused(*args: str, stdin: str | None = None) -> str:
        raise SandboxError("connection refused")

    with pytest.raises(SandboxError, match=r"not ready after 0\.2 s: connection refused"):
        wait_ready(refused, timeout_s=0.2)


def test_an_exited_server_is_not_waited_for() -> None:
    def refused(*args: str, stdin: str | None = None) -> str:
        raise SandboxError("connection refused")

    def dead() -> None:
        raise SandboxError("etcd ended with status 1")

    with pytest.raises(SandboxError, match="etcd ended"):
        wait_ready(refused, alive=dead)

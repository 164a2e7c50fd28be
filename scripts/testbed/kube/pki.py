"""Keys and certificates of one control plane, created by openssl."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Sequence
from pathlib import Path

from testbed.errors import SandboxError

DAYS = 3650
CA, CA_KEY = "ca.crt", "ca.key"
SERVER, SERVER_KEY = "apiserver.crt", "apiserver.key"
ADMIN, ADMIN_KEY = "admin.crt", "admin.key"
TOKEN_KEY = "service-account.key"  # noqa: S105 - a file's name

ADMIN_SUBJECT = "/O=system:masters/CN=kubernetes-admin"
"""Group (O) and user (CN) for RBAC and the audit log, as kubeadm names its admin."""


def make(folder: Path, addresses: Sequence[str], names: Sequence[str]) -> None:
    """Create all keys and certificates in ``folder`` unless they exist. Readable by the owner only.

    ``addresses`` and ``names``: how clients may address the API server.
    """
    if all((folder / name).exists() for name in (CA, SERVER, ADMIN, TOKEN_KEY)):
        return
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    alternatives = ",".join(
        [*(f"IP:{address}" for address in addresses), *(f"DNS:{name}" for name in names)]
    )
    _openssl(folder, ca_argv())
    _openssl(
        folder, leaf_argv(SERVER, SERVER_KEY, "/CN=kube-apiserver", "serverAuth", alternatives)
    )
    _openssl(folder, leaf_argv(ADMIN, ADMIN_KEY, ADMIN_SUBJECT, "clientAuth"))
    _openssl(
        folder,
        ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", TOKEN_KEY],
    )
    for key in (CA_KEY, SERVER_KEY, ADMIN_KEY, TOKEN_KEY):
        (folder / key).chmod(0o600)


def certificate(folder: Path, name: str, subject: str) -> dict[str, str]:
    """A client's certificate by the CA in ``folder``, made once, as its entry in a kubeconfig."""
    files = {"client-certificate-data": f"{name}.crt", "client-key-data": f"{name}.key"}
    if not all((folder / file).exists() for file in files.values()):
        _openssl(folder, leaf_argv(f"{name}.crt", f"{name}.key", subject, "clientAuth"))
        (folder / f"{name}.key").chmod(0o600)
    return {
        field: base64.b64encode((folder / file).read_bytes()).decode()
        for field, file in files.items()
    }


def ca_argv() -> list[str]:
    """Command that creates the CA."""
    return [
        *_request(CA, CA_KEY, "/CN=kubernetes"),
        "-addext", "basicConstraints=critical,CA:TRUE",
        "-addext", "keyUsage=critical,digitalSignature,keyCertSign,cRLSign",
    ]  # fmt: skip


def leaf_argv(
    certificate: str, key: str, subject: str, usage: str, alternatives: str = ""
) -> list[str]:
    """Command that creates a certificate signed by the CA in the same folder."""
    extensions = [
        "-addext",
        f"extendedKeyUsage={usage}",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
    ]
    if alternatives:
        extensions += ["-addext", f"subjectAltName={alternatives}"]
    return [*_request(certificate, key, subject), "-CA", CA, "-CAkey", CA_KEY, *extensions]


def _request(certificate: str, key: str, subject: str) -> list[str]:
    # Elliptic keys take milliseconds, RSA keys a second. An empty section excludes the host's
    # defaults.
    return [
        "openssl", "req", "-x509", "-config", "openssl.cnf", "-newkey", "ec",
        "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", str(DAYS),
        "-subj", subject, "-keyout", key, "-out", certificate,
    ]  # fmt: skip


def _openssl(folder: Path, argv: Sequence[str]) -> None:
    (folder / "openssl.cnf").write_text("[req]\ndistinguished_name = none\n[none]\n")
    try:
        done = subprocess.run(
            argv, cwd=folder, capture_output=True, text=True, timeout=60, check=False
        )
    except FileNotFoundError:
        raise SandboxError(
            "openssl is not installed (needed for certificates): apt-get install openssl"
        ) from None
    if done.returncode:
        raise SandboxError(
            f"{' '.join(argv[:3])} in {folder} failed: {' '.join(done.stderr.split())[-300:]}"
        )

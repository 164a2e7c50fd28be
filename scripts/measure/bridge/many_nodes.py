"""A slurmctld and an API server with many nodes, without slurmd and kubelet, on this machine's loopback."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import urllib3
from testbed.errors import SandboxError
from testbed.kube import Worker
from testbed.kube.local import ApiServer, free_port
from testbed.kube.manifests import node as node_manifest

from holdfast.slurm.parse.sdiag import node_changes
from measure.bridge.download import download

CONNECTIONS = 8
_IMAGES, _FEATURES = 50, 60
"""What a GPU machine's Node has: as many images as a kubelet lists, and labels of node-feature-discovery."""
_CONF = """
ClusterName=many
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
AuthType=auth/slurm
CredType=auth/slurm
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SlurmctldPidFile=/run/many/slurmctld.pid
StateSaveLocation=/run/many/state
SlurmctldLogFile=/run/many/slurmctld.log
ReturnToService=1
NodeName={prefix}-[0-{last}] State=CLOUD CPUs=4 RealMemory=1000
PartitionName=all Nodes=ALL Default=YES
"""
_TOKENS = "AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key=/etc/slurm/jwt.key\n"


def slurm_name(number: int) -> str:
    return f"w-{number}"


def kube_name(number: int) -> str:
    return f"computeinstance-{number}"


def number_of(kube_name: str) -> int:
    return int(kube_name.rpartition("-")[2])


class ManySlurmNodes:
    """slurmctld of a built root filesystem with nodes of the state CLOUD: ``PREFIX-0``, ``PREFIX-1``, ….
    ``bin`` has Slurm's commands. ``user``: SlurmUser. With ``jwt_key``, tokens signed with it are accepted.
    """

    def __init__(
        self,
        root: Path,
        folder: Path,
        count: int,
        prefix: str = "w",
        user: str = "root",
        jwt_key: bytes = b"",
    ):
        if not os.path.lexists(root / "usr/sbin/slurmctld"):  # a link that is absolute in the root
            raise SandboxError(f"no Slurm in {root}; scripts/sandbox up builds it")
        self._root, self._folder, self._count, self._prefix = root, folder, count, prefix
        self.bin = folder / "bin"
        self._user, self._jwt_key = user, jwt_key
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ManySlurmNodes:
        etc, root = self._folder / "etc", self._folder / "root"
        for made in (etc, root, self.bin):
            made.mkdir(parents=True)
        names = {"last": self._count - 1, "prefix": self._prefix, "user": self._user}
        text = _CONF.format(port=free_port(), **names) + (_TOKENS if self._jwt_key else "")
        (etc / "slurm.conf").write_text(text)
        (etc / "jwt.key").write_bytes(self._jwt_key)
        (etc / "jwt.key").chmod(0o600)
        (etc / "slurm.key").write_bytes(secrets.token_bytes(64))
        (etc / "slurm.key").chmod(0o600)
        steps = (
            "set -e",
            f"mount -t tmpfs tmpfs {root}",
            f"mkdir {root}/u {root}/w {root}/r",
            f"mount -t overlay overlay -o lowerdir={self._root},upperdir={root}/u,workdir={root}/w "
            f"{root}/r",
            f"mkdir -p {root}/r/etc/slurm {root}/r/run/many/state",
            f"cp {etc}/slurm.conf {etc}/*.key {root}/r/etc/slurm/",
            f"chroot {root}/r chown -R {self._user}: /etc/slurm /run/many",
            f"mount -t proc proc {root}/r/proc",
            f"mount --bind /dev {root}/r/dev",
            f"exec chroot {root}/r /usr/sbin/slurmctld -D -i",
        )
        with (self._folder / "slurmctld.out").open("wb") as out:
            self._process = subprocess.Popen(
                [
                    "unshare",
                    "--mount",
                    "setpriv",
                    "--pdeathsig",
                    "KILL",
                    "sh",
                    "-c",
                    "\n".join(steps),
                ],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        for tool in ("scontrol", "sinfo", "sdiag", "squeue", "sacctmgr"):
            script = self.bin / tool
            enter = f"nsenter --mount --root --wd=/ -t {self._process.pid} --"
            script.write_text(f'#!/bin/sh\nexec {enter} /usr/bin/{tool} "$@"\n')
            script.chmod(0o755)
        self._wait()
        ids = (
            f"update nodename={self._prefix}-{i} instanceid={kube_name(i)}\n"
            for i in range(self._count)
        )
        self.scontrol(stdin="".join(ids) + "quit\n")
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def pid(self) -> int:
        """Of slurmctld."""
        assert self._process is not None  # noqa: S101 - entered
        return self._process.pid

    def scontrol(self, *words: str, stdin: str = "") -> str:
        """Raises ``SandboxError`` when it fails."""
        done = subprocess.run(
            [str(self.bin / "scontrol"), *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            raise SandboxError(f"scontrol {' '.join(words)[:80]}: {done.stderr or done.stdout}")
        return done.stdout

    def drain(self, numbers: Sequence[int], reason: str) -> None:
        names = ",".join(map(slurm_name, numbers))
        self.scontrol("update", f"nodename={names}", "state=drain", f"reason={reason}")

    def drained(self, numbers: Sequence[int]) -> int:
        """How many of these are drained."""
        names = ",".join(map(slurm_name, numbers))
        argv = ["--noheader", "--states=drain", f"--nodes={names}", "--format=%D"]
        done = subprocess.run(
            [str(self.bin / "sinfo"), *argv], capture_output=True, text=True, timeout=60, check=True
        )
        return sum(map(int, done.stdout.split()))

    def changes(self) -> int:
        """How many requests to change nodes slurmctld has received."""
        return node_changes(self.statistics()).changes

    def statistics(self) -> str:
        """What sdiag prints."""
        done = subprocess.run(
            [str(self.bin / "sdiag")], capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout

    def _wait(self) -> None:
        end = time.monotonic() + 60
        while True:
            try:
                self.scontrol("show", "node", f"{self._prefix}-0")
                return
            except (SandboxError, subprocess.TimeoutExpired) as error:
                assert self._process is not None  # noqa: S101 - entered
                if self._process.poll() is not None or time.monotonic() > end:
                    text = (self._folder / "slurmctld.out").read_text(errors="replace")[-400:]
                    raise SandboxError(f"slurmctld does not answer: {text or error}") from None
                time.sleep(0.2)


class ManyKubeNodes:
    """Nodes of the size of a GPU machine's, and requests as fast as the server takes them."""

    def __init__(self, server: ApiServer):
        kubeconfig = json.loads(server.kubeconfig.read_text())
        folder = server.kubeconfig.parent / "pki"
        self._url = kubeconfig["clusters"][0]["cluster"]["server"]
        self._files = [folder / name for name in ("ca.crt", "admin.crt", "admin.key")]
        authority, certificate, key = map(str, self._files)
        self._pool = urllib3.PoolManager(
            maxsize=32, ca_certs=authority, cert_file=certificate, key_file=key
        )
        self._of_account: dict[str, str] = {}

    def act_as(self, token: str) -> ManyKubeNodes:
        """The same with the rights of an account, from connections of its own."""
        other = copy(self)
        other._pool = urllib3.PoolManager(maxsize=32, ca_certs=str(self._files[0]))
        other._of_account = {"Authorization": f"Bearer {token}"}
        return other

    def create(self, count: int) -> None:
        stamp = f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
        self.at_once(range(count), lambda number: self._create(number, stamp))

    def _create(self, number: int, stamp: str) -> None:
        worker = Worker(pod=slurm_name(number), node=kube_name(number), address="10.77.0.1")
        body = node_manifest(worker, stamp)
        images = [
            [
                f"cr.example.org/team/of/image-{i:03d}@sha256:{i:064x}",
                f"cr.example.org/team/of/image-{i:03d}:v1",
            ]
            for i in range(_IMAGES)
        ]
        body["status"]["images"] = [{"names": names, "sizeBytes": 4 << 30} for names in images]
        features = {
            f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{i:03d}": "true" for i in range(_FEATURES)
        }
        body["metadata"]["labels"] |= features
        self._send("POST", "/api/v1/nodes", body)

    def status(self, number: int, patch: Mapping[str, Any]) -> None:
        path = f"/api/v1/nodes/{kube_name(number)}/status"
        self._send("PATCH", path, patch, "application/strategic-merge-patch+json")

    def cordon(self, number: int) -> None:
        path = f"/api/v1/nodes/{kube_name(number)}?fieldManager=kubectl-cordon"
        self._send("PATCH", path, {"spec": {"unschedulable": True}}, "application/merge-patch+json")

    def isolated(self, number: int) -> bool:
        """Is the Node cordoned, with the taint of Holdfast?"""
        spec = json.loads(self._send("GET", f"/api/v1/nodes/{kube_name(number)}"))["spec"]
        taints = [taint["key"] for taint in spec.get("taints") or ()]
        return bool(spec.get("unschedulable")) and "holdfast.dev/drained" in taints

    def download(self) -> int:
        """The bytes of all Nodes in protobuf, read by a process of its own that decodes none of them."""
        url = urllib3.util.parse_url(self._url)
        return download((str(url.host), str(url.port), *map(str, self._files)))

    def version(self) -> str:
        """The resource version of now."""
        meta = json.loads(self._send("GET", "/api/v1/nodes?limit=1"))["metadata"]
        return str(meta["resourceVersion"])

    def lines(self, path: str) -> Iterator[bytes]:
        """The lines of a watch, until the server ends it."""
        answer = self._pool.request(
            "GET", self._url + path, preload_content=False, timeout=urllib3.Timeout(10, read=None)
        )
        rest = b""
        for piece in answer.stream(65536):
            *whole, rest = (rest + piece).split(b"\n")
            yield from whole

    def _send(
        self, method: str, path: str, body: object = None, kind: str = "application/json"
    ) -> bytes:
        """The answer, not decoded. Raises ``SandboxError`` for one that is no success."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": kind, **self._of_account}
        answer = self._pool.request(
            method, self._url + path, body=data, headers=headers, timeout=30
        )
        if answer.status >= 300:
            raise SandboxError(f"{method} {path}: {answer.status} {answer.data[:200]!r}")
        return answer.data

    def at_once(self, numbers: Sequence[int], act: Callable[[int], None]) -> float:
        """For each number, over several connections. The seconds that it took."""
        begun = time.monotonic()
        with ThreadPoolExecutor(CONNECTIONS) as threads:
            deque(threads.map(act, numbers), maxlen=0)
        return time.monotonic() - begun

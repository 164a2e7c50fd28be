"""Another project's operator beside the bridge: its own program, with slurmrestd, on a real API server.

Somebody builds the program beforehand. Its CRDs have no schema here: what counts is what the program does.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from measure.bridge.many_nodes import ManySlurmNodes
from testbed.kube.local import ApiServer, free_port

_WAIT_S, _STABLE_S = 150.0, 0.3
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def applied(server: ApiServer, *objects: Mapping[str, Any]) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    server.kubectl("apply", "--server-side", "-f", "-", stdin=text)


def jwt_key() -> bytes:
    """Of letters, as Slinky's chart makes it."""
    return secrets.token_hex(64).encode()


class Manager:
    """The running program. ``rest``: the name by which it looks for slurmrestd, on port 6820; both are on an
    address of loopback of their own. ``controller``: that which changes nodes, by its name in the metrics."""

    def __init__(
        self,
        argv: Callable[[str], Sequence[str]],
        *,
        server: ApiServer,
        slurm: ManySlurmNodes,
        folder: Path,
        rest: str,
        controller: str,
        env: Mapping[str, str] | None = None,
    ):
        """``argv`` takes the address on which the metrics are served."""
        folder.mkdir()
        self.log = folder / "manager.log"
        self._controller = controller
        self._metrics = f"127.0.0.1:{free_port()}"
        address = _own_address()
        hosts = folder / "hosts"
        hosts.write_text(f"127.0.0.1 localhost\n{address} {rest}\n")
        nobody = "setpriv --pdeathsig KILL --reuid=65534 --regid=65534 --clear-groups --"
        serve = f"/usr/sbin/slurmrestd -a rest_auth/jwt -s slurmctld {address}:6820"
        enter = f"nsenter --mount --root --wd=/ -t {slurm.pid} --"
        inside = f'mount --bind {hosts} /etc/hosts && exec setpriv --pdeathsig KILL -- "$@"'
        own = ["unshare", "--mount", "sh", "-c", inside, "sh", *argv(self._metrics)]
        daemon = {**os.environ, "SLURM_JWT": "daemon"}
        given = {**os.environ, "KUBECONFIG": str(server.kubeconfig), **(env or {})}
        self._running = [
            _spawn([*enter.split(), *nobody.split(), *serve.split()], daemon, folder / "rest.log"),
            _spawn(own, given, self.log),
        ]

    def close(self) -> None:
        for running in reversed(self._running):
            running.kill()
            running.wait()

    def passes(self) -> int:
        """How often the controller has reconciled something to its end."""
        return int(self._sum("controller_runtime_reconcile_total"))

    def wait_passes(self, passes: int) -> None:
        """Until it has done so more than ``passes`` times, and for a moment has nothing to do."""
        end, since = time.monotonic() + _WAIT_S, time.monotonic()
        last = -1
        while True:
            now = self.passes()
            busy = self._sum("controller_runtime_active_workers") + self._sum("workqueue_depth")
            if now <= passes or now != last or busy:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > _STABLE_S:
                return
            assert time.monotonic() < end, (
                f"the operator does nothing: {self.log.read_text()[-2000:]}"
            )
            time.sleep(0.05)

    def wait(self, what: str, happened: Callable[[], object]) -> None:
        end = time.monotonic() + _WAIT_S
        while not happened():
            ended = self._running[1].poll() is not None or time.monotonic() > end
            assert not ended, f"{what}: {self.log.read_text()[-3000:]}"
            time.sleep(0.1)

    def _sum(self, metric: str) -> float:
        """Over all results of its controller."""
        try:
            with urllib.request.urlopen(f"http://{self._metrics}/metrics", timeout=5) as answer:
                text = answer.read().decode()
        except OSError:
            return 0.0
        found = 0.0
        for line in text.splitlines():
            name, _, value = line.rpartition(" ")
            labels = dict(_LABEL.findall(name))
            if name.startswith(f"{metric}{{"):
                mine = labels.get("controller", labels.get("name")) == self._controller
                found += float(value) if mine else 0.0
        return found


def _own_address() -> str:
    """One of loopback that no other process of tests uses."""
    pid = os.getpid()
    return f"127.{64 + (pid >> 16 & 63)}.{pid >> 8 & 255}.{pid & 255 or 1}"


def _spawn(argv: Sequence[str], env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as out:
        return subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )

"""The bridge with 10,000 real Nodes and 10,000 Slurm nodes: first sync, restart, rest, storms.

Everything is compared with raw PATCH requests of the same size on the same API server in the same run.
``HOLDFAST_BENCH_NODES`` changes the number of nodes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import yaml
from testbed.box import Box
from testbed.errors import SandboxError
from testbed.kube import bridge_kubeconfig
from testbed.kube.local import ApiServer, free_port
from testbed.kube.provisioning import grant_bridge
from testbed.paths import cache

from measure.figures import Figure, Series
from measure.many_nodes import ManyKubeNodes, ManySlurmNodes, cpu_s, rss_mib, slurm_name

NODES = int(os.environ.get("HOLDFAST_BENCH_NODES", "10000"))
STORM = min(1000, NODES // 4)
RAW = min(1000, NODES // 4)
SINGLE = 10
REST_S = 20.0
SHARE = 0.8
"""The part of the rate of raw PATCH that the first sync has to reach."""


class RunningBridge:
    """``holdfast bridge`` as a process of its own, and what its metrics say."""

    def __init__(self, config: Path, port: int, log: Path):
        self._config, self._port, self._log = config, port, log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        argv = [sys.executable, "-m", "holdfast", "bridge", "--config", str(self._config)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    @property
    def pid(self) -> int:
        assert self._process is not None  # noqa: S101 - started
        return self._process.pid

    def metric(self, prefix: str) -> float:
        """The sum of the series whose line begins so; -1 while it does not answer."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self._port}/metrics", timeout=10
            ) as page:
                text = page.read().decode()
        except OSError:
            return -1.0
        lines = [line for line in text.splitlines() if line.startswith(prefix)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    @property
    def writes(self) -> float:
        return self.metric("holdfast_bridge_writes_total")

    @property
    def synced(self) -> bool:
        """All Nodes are listed, a pass has ended, and it planned nothing."""
        listed = self.metric('holdfast_bridge_nodes{side="kubernetes"}') == NODES
        passed = self.metric("holdfast_bridge_passes_total") >= 1
        return listed and passed and self.metric("holdfast_bridge_planned_changes") == 0


def bridge(_box: Box, say: Callable[[str], None]) -> Figure:
    """Needs no node of the box."""
    with tempfile.TemporaryDirectory(prefix="hf", dir="/tmp") as name:
        folder = Path(name)
        with ApiServer(folder / "kube") as server:
            return _measure(server, folder, say)


def _measure(server: ApiServer, folder: Path, say: Callable[[str], None]) -> Figure:
    kube = ManyKubeNodes(server)
    grant_bridge(server.kubectl)
    say(f"bridge: creating {NODES} Nodes")
    kube.create(NODES)
    raw_s = kube.at_once(range(RAW), lambda i: kube.status(i, _raw_patch(i))) / RAW
    say(f"bridge: raw PATCH {1 / raw_s:.0f}/s")
    root = cache() / "roots" / "24.11"
    with ManySlurmNodes(root, folder / "slurm", NODES) as slurm:
        running = _configured(server, slurm, folder)
        try:
            notes, sync_s = _figures(kube, slurm, running, say)
        except (SandboxError, OSError):
            say((folder / "bridge.log").read_text(errors="replace")[-2000:])
            raise
        finally:
            running.kill()
    per_node_s = sync_s / NODES
    return Figure(
        name="bridge",
        ours=Series(what=f"bridge's first sync of {NODES} Nodes, per Node", seconds=(per_node_s,)),
        rival=Series(what="raw PATCH of a Node's status, 8 connections", seconds=(raw_s,)),
        target=f"at least {SHARE:.0%} of raw PATCH's rate",
        met=raw_s / per_node_s >= SHARE,
        notes=tuple(notes),
    )


def _raw_patch(number: int) -> dict[str, object]:
    row = {"type": "Bench", "status": "True", "reason": "Raw", "message": f"number {number}"}
    rows = [{**row, "type": f"Bench{i}"} for i in range(3)]
    return {"status": {"conditions": rows}, "metadata": {"labels": {"bench": str(number)}}}


def _configured(server: ApiServer, slurm: ManySlurmNodes, folder: Path) -> RunningBridge:
    kubeconfig, port = folder / "bridge.kubeconfig", free_port()
    kubeconfig.write_text(bridge_kubeconfig(server.kubectl, server.plane))
    settings = {
        "slurm": {"bin": str(slurm.bin)},
        "bridge": {"kubeconfig": str(kubeconfig), "slurm_user": "root", "metrics_port": port},
    }
    config = folder / "holdfast.yaml"
    config.write_text(yaml.safe_dump(settings))
    return RunningBridge(config, port, folder / "bridge.log")


def _figures(
    kube: ManyKubeNodes, slurm: ManySlurmNodes, running: RunningBridge, say: Callable[[str], None]
) -> tuple[list[str], float]:
    begun = time.monotonic()
    running.start()
    _until(lambda: running.writes > 0, "the first write", 120)
    sync_begun = time.monotonic()
    slurm.drain([NODES // 2], "a person's drain during the first sync")
    told_s = _told_after(kube, NODES // 2, time.monotonic())
    _until(lambda: running.synced, "the first sync", 600)
    sync_s = time.monotonic() - sync_begun
    notes = [
        f"{NODES} Nodes: {sync_begun - begun:.1f} s from the start to the first write, "
        f"{NODES / sync_s:.0f} Nodes/s; a person's drain during it is told after {told_s:.1f} s"
    ]
    say(notes[-1])
    running.kill()
    begun = time.monotonic()
    running.start()
    _until(lambda: running.synced, "the state after a restart", 120)
    notes.append(f"restart until synced: {time.monotonic() - begun:.1f} s")
    say(notes[-1])
    notes.append(_rest(running))
    say(notes[-1])
    notes.append(_single(kube, slurm))
    say(notes[-1])
    notes.append(_drains(kube, slurm, running))
    say(notes[-1])
    notes.append(_cordons(kube, slurm, running))
    notes.append(f"memory at the end: peak {rss_mib(running.pid, 'VmHWM'):.0f} MiB")
    return notes, sync_s


def _rest(running: RunningBridge) -> str:
    time.sleep(5)
    before, writes = cpu_s(running.pid), running.writes
    time.sleep(REST_S)
    share = (cpu_s(running.pid) - before) / REST_S
    return (
        f"nothing changing: {share:.1%} of a core with its children, "
        f"{rss_mib(running.pid):.0f} MiB, {running.writes - writes:.0f} writes"
    )


def _single(kube: ManyKubeNodes, slurm: ManySlurmNodes) -> str:
    seconds = []
    for i in range(SINGLE):
        time.sleep(0.37 * i % 2)  # at different moments between two looks
        begun = time.monotonic()
        slurm.drain([i], f"single {i}")
        seconds.append(_told_after(kube, i, begun))
    return f"one drain to its condition: median {sorted(seconds)[SINGLE // 2]:.2f} s, max {max(seconds):.2f} s"


def _drains(kube: ManyKubeNodes, slurm: ManySlurmNodes, running: RunningBridge) -> str:
    numbers = range(SINGLE, SINGLE + STORM)
    writes = running.writes
    begun = time.monotonic()
    slurm.drain(numbers, "holdfast:XID79: bench")
    _told_after(kube, numbers[0], begun, 120)
    first_s = time.monotonic() - begun
    _until(lambda: running.writes >= writes + 2 * STORM, "the storm's end", 300)
    return (
        f"{STORM} drains at once: first told after {first_s:.1f} s, all isolated and told after "
        f"{time.monotonic() - begun:.1f} s"
    )


def _cordons(kube: ManyKubeNodes, slurm: ManySlurmNodes, running: RunningBridge) -> str:
    numbers = range(NODES - STORM, NODES)
    took_s = kube.at_once(numbers, kube.cordon)
    begun = time.monotonic()

    def drained() -> bool:
        done = running.metric('holdfast_bridge_writes_total{change="DrainInSlurm"}')
        return done >= STORM

    _until(drained, "every drain", 300)
    text = slurm.scontrol("show", "node", slurm_name(numbers[-1]))
    assert "KUBE_CORDON" in text  # noqa: S101 - what was measured
    return (
        f"{STORM} cordons within {took_s:.1f} s: last drained "
        f"{time.monotonic() - begun:.1f} s after the last cordon"
    )


def _told_after(kube: ManyKubeNodes, number: int, begun: float, limit_s: float = 60) -> float:
    """The seconds since ``begun`` until the Node's condition shows the drain."""

    def told() -> bool:
        rows = kube.get(number)["status"]["conditions"]
        return any(r["type"] == "HoldfastSlurmDrained" and r["status"] == "True" for r in rows)

    _until(told, "the drain's condition", limit_s, 0.02)
    return time.monotonic() - begun


def _until(holds: Callable[[], bool], what: str, limit_s: float, pause_s: float = 0.2) -> None:
    end = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > end:
            raise SandboxError(f"{what} did not come within {limit_s:g} s")
        time.sleep(pause_s)

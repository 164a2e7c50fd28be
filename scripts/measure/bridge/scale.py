"""The bridge with 10,000 real Nodes and 10,000 Slurm nodes: first sync, restart, rest, drains and cordons.

Each figure stands beside what the same API server, slurmctld and interpreter take in the same run without the
bridge. ``HOLDFAST_BENCH_NODES`` changes the number of nodes. Needs no box.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml
from testbed.errors import SandboxError
from testbed.kube import bridge_kubeconfig
from testbed.kube.local import ApiServer, free_port
from testbed.kube.provisioning import grant_bridge
from testbed.paths import cache

from k8s_bridge.loop import QUESTION_S
from k8s_bridge.names import ALWAYS, STATE_LABEL
from measure.bridge.many_nodes import ManyKubeNodes, ManySlurmNodes, slurm_name
from measure.bridge.node_watch import ShownTimes
from measure.bridge.process import RunningBridge
from measure.bridge.process import cpu_s as process_cpu_s
from measure.figures import Figure, Series, text

Say = Callable[[str], None]

NODES = int(os.environ.get("HOLDFAST_BENCH_NODES", "10000"))
STORM = min(1000, NODES // 4)
RAW = min(1000, NODES // 4)
SINGLE = 60
"""Drains, one after another, while nothing else happens."""
RESTARTS = 2
REST_S = 65.0
"""More than the time between two full reads of Slurm's nodes."""
SHARE = 0.8
"""The part of the rate of raw PATCH that the first sync has to reach."""
_IMPORTS = (
    "import k8s_bridge.service, k8s_bridge.kube.client, k8s_bridge.endpoints.metrics\n"
    "k8s_bridge.kube.library.imported()"
)


def bridge(say: Say) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="hf", dir="/tmp") as name:
        folder = Path(name)
        with ApiServer(folder / "kube") as server:
            kube = ManyKubeNodes(server)
            grant_bridge(server.kubectl)
            say(f"bridge: creating {NODES} Nodes")
            kube.create(NODES)
            root = cache() / "roots" / "24.11"
            with ManySlurmNodes(root, folder / "slurm", NODES) as slurm:
                running = _configured(server, slurm, folder)
                try:
                    return _Run(kube, slurm, running, server.pids, say).figures()
                except (SandboxError, TimeoutError, OSError):
                    say((folder / "bridge.log").read_text(errors="replace")[-2000:])
                    raise
                finally:
                    running.kill()


def _configured(server: ApiServer, slurm: ManySlurmNodes, folder: Path) -> RunningBridge:
    kubeconfig, port = folder / "bridge.kubeconfig", free_port()
    kubeconfig.write_text(bridge_kubeconfig(server.kubectl, server.plane))
    settings = {
        "slurm": {"bin": str(slurm.bin)},
        "bridge": {"kubeconfig": str(kubeconfig), "slurm_user": "root", "metrics_port": port},
    }
    config = folder / "holdfast.yaml"
    config.write_text(yaml.safe_dump(settings))
    running = RunningBridge(config, port, folder / "bridge.log", NODES)
    user = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
    running.token = user["token"]
    return running


class _Run:
    """The measurements in their order. Each node is drained or cordoned once."""

    def __init__(
        self,
        kube: ManyKubeNodes,
        slurm: ManySlurmNodes,
        running: RunningBridge,
        servers: Sequence[int],
        say: Say,
    ):
        """``servers``: the processes of the API server."""
        self._kube, self._slurm, self._running, self._say = kube, slurm, running, say
        self._servers = servers
        self._account = kube.act_as(running.token)
        self._shown = ShownTimes(kube)
        self._unused = iter(range(NODES))
        self._raw_runs = itertools.count()
        self._peaks: list[float] = []

    def figures(self) -> list[Figure]:
        found = []
        for measured in (
            self._sync,
            self._restart,
            self._rest,
            self._steady,
            self._drains,
            self._cordons,
        ):
            for figure in measured():
                found.append(figure)
                self._say("\n".join(text(figure)))
        self._peaks.append(self._running.memory_mib("VmHWM"))
        return [*found, self._memory()]

    def _sync(self) -> list[Figure]:
        """The first sync, with raw PATCH before and after it, and drains by a person during it."""
        raw_cpu_s = self._cpu_s(os.getpid())
        raw_s = [self._raw()]
        raw_cpu_s = (self._cpu_s(os.getpid()) - raw_cpu_s) / RAW
        own_s = self._account.at_once(range(RAW), lambda i: self._account.status(i, _own_patch()))
        self._running.start()
        _until(lambda: self._running.writes > 0, "the first write", 120)
        begun, cpu_s = time.monotonic(), self._running.cpu_s()
        all_cpu_s = self._cpu_s(self._running.pid)
        numbers: list[int] = []
        drained: list[float] = []
        while self._running.writes < NODES:
            if time.monotonic() - begun > 600:
                raise TimeoutError("no first sync within 600 s")
            numbers.append(NODES - 1 - len(numbers))
            drained.append(self._drain([numbers[-1]], f"a person's drain {numbers[-1]}"))
            time.sleep(0.9)
        _until(lambda: self._running.synced, "the end of the first sync", 60)
        took_s = time.monotonic() - begun
        cpu_s = self._running.cpu_s() - cpu_s
        all_cpu_s = (self._cpu_s(self._running.pid) - all_cpu_s) / self._running.writes
        self._peaks.append(self._running.memory_mib("VmHWM"))
        raw_s.append(self._raw())
        ours = Series(
            what=f"bridge, first sync of {NODES} Nodes, per Node", seconds=(took_s / NODES,)
        )
        rival = Series(what="raw PATCH of a status, 8 connections", seconds=tuple(raw_s))
        return [
            Figure(
                name="bridge",
                ours=ours,
                rival=rival,
                target=f"at least {SHARE:.0%} of raw PATCH's rate",
                met=rival.median / ours.median >= SHARE,
                notes=(
                    f"first sync: {took_s:.0f} s, {NODES / took_s:.0f} Nodes/s, "
                    f"{rival.median / ours.median:.0%} of raw PATCH's rate, {cpu_s:.0f} s of CPU time",
                    f"first sync: raw PATCH by the bridge's account, under its admission policy: "
                    f"{1e3 * own_s / RAW:.2f} ms",
                    f"first sync: with the API server, {1e3 * all_cpu_s:.1f} ms of CPU time for each write; raw "
                    f"PATCH: {1e3 * raw_cpu_s:.1f} ms",
                ),
            ),
            self._shown_figure("during the first sync", numbers, drained),
        ]

    def _cpu_s(self, client: int) -> float:
        return sum(process_cpu_s(pid, children=pid == client) for pid in (*self._servers, client))

    def _raw(self, count: int = RAW) -> float:
        """Seconds for each. The API server writes nothing for a patch that changes nothing, so each run has a
        text of its own."""
        run = next(self._raw_runs)
        numbers = [i % RAW for i in range(count)]
        texts = [f"{run}: {turn // RAW}" for turn in range(count)]

        def write(turn: int) -> None:
            self._kube.status(numbers[turn], _raw_patch(numbers[turn], texts[turn]))

        return self._kube.at_once(range(count), write) / count

    def _restart(self) -> list[Figure]:
        seconds, cpu_s, lists = [], [], []
        for _ in range(RESTARTS):
            self._running.kill()
            begun = time.monotonic()
            self._running.start()
            _until(lambda: self._running.synced, "the state after a restart", 120, 0.05)
            seconds.append(time.monotonic() - begun)
            cpu_s.append(self._running.cpu_s(children=False))
            self._peaks.append(self._running.memory_mib("VmHWM"))
            begun = time.monotonic()
            mib = self._kube.download() / 2**20
            lists.append(time.monotonic() - begun)
        ours = Series(what="bridge, restart until synced", seconds=tuple(seconds))
        listed = Series(
            what=f"a process that only reads the LIST of the {NODES} Nodes", seconds=tuple(lists)
        )
        note = f"restart: {max(cpu_s):.1f} s of CPU time at most; the LIST has {mib:.0f} MiB"
        return [
            Figure(
                name="bridge", ours=ours, rival=listed, target="at most 3 s",
                met=ours.quantile(1.0) <= 3, notes=(note,),
            )
        ]  # fmt: skip

    def _rest(self) -> list[Figure]:
        time.sleep(5)
        own, whole = self._running.cpu_s(children=False), self._running.cpu_s()
        writes, begun = self._running.writes, time.monotonic()
        time.sleep(REST_S)
        took_s = time.monotonic() - begun
        share = (self._running.cpu_s() - whole) / took_s
        children = share - (self._running.cpu_s(children=False) - own) / took_s
        written = self._running.writes - writes
        return [
            Figure(
                name="bridge",
                ours=Series(what="bridge while nothing changes", seconds=(share,), unit="core"),
                rival=Series(what="of it: sinfo and scontrol", seconds=(children,), unit="core"),
                target="at most 3 % of a core, no write",
                met=share <= 0.03 and written == 0,
                notes=(
                    f"nothing changes: {written:.0f} writes in {took_s:.0f} s, "
                    f"{self._running.memory_mib():.0f} MiB",
                ),
            )
        ]

    def _steady(self) -> list[Figure]:
        numbers, drained = [], []
        for turn in range(SINGLE):
            numbers.append(self._next())
            drained.append(self._drain([numbers[-1]], f"single {turn}"))
            time.sleep(0.05 * (turn * 7 % 11))  # at different moments between two looks
        return [self._shown_figure("while nothing else happens", numbers, drained)]

    def _drains(self) -> list[Figure]:
        numbers = [self._next() for _ in range(STORM)]
        begun = self._drain(numbers, "holdfast:XID79: bench")
        others, drained = [], []
        for turn in range(20):
            others.append(self._next())
            drained.append(self._drain([others[-1]], f"a person's drain in the storm {turn}"))
            time.sleep(0.3)
        reported = [at - begun for at in self._shown.of(numbers, 300)]
        isolated_s = [at - begun for at in self._shown.isolated(numbers, 300)]
        _until(lambda: self._running.synced, "the storm's end", 60)
        records = sum(self._kube.isolated(number) for number in numbers)
        shown = Series(
            what=f"bridge, {STORM} drains at once: all reported", seconds=(max(reported),)
        )
        ours = Series(
            what=f"bridge, {STORM} drains at once: all reported, cordoned and tainted",
            seconds=(max(*reported, *isolated_s),),
        )
        each_s = self._raw(2 * STORM)
        return [
            Figure(
                name="bridge",
                ours=shown,
                rival=Series(what=f"{STORM} raw PATCH", seconds=(STORM * each_s,)),
                target="at most 12 s",
                met=shown.median <= 12 and records == STORM,
                notes=(
                    f"storm: the first reported after {min(reported):.1f} s, cordoned and tainted after "
                    f"{min(isolated_s):.1f} s; {records} cordoned and tainted",
                ),
            ),
            Figure(
                name="bridge",
                ours=ours,
                rival=Series(what=f"{2 * STORM} raw PATCH", seconds=(2 * STORM * each_s,)),
                target=f"at least {SHARE:.0%} of raw PATCH's rate",
                met=2 * STORM * each_s / ours.median >= SHARE and records == STORM,
                notes=(),
            ),
            self._shown_figure("during the storm", others, drained),
        ]

    def _cordons(self) -> list[Figure]:
        numbers = [self._next() for _ in range(STORM)]
        changes = self._slurm.changes()
        took_s = self._kube.at_once(numbers, self._kube.cordon)
        last = time.monotonic()
        _until(lambda: self._slurm.drained(numbers) == STORM, "every drain", 300, 0.1)
        after_s = time.monotonic() - last
        shown = self._slurm.scontrol("show", "node", slurm_name(numbers[-1]))
        assert "KUBE_CORDON" in shown  # noqa: S101 - what was measured
        changes = self._slurm.changes() - changes
        reported = max(self._shown.of(numbers, 300)) - last
        return [
            Figure(
                name="bridge",
                ours=Series(
                    what=f"bridge, {STORM} cordons: the last to all drained", seconds=(after_s,)
                ),
                rival=Series(what="the cordons themselves", seconds=(took_s,)),
                target="at most 3 s",
                met=after_s <= 3,
                notes=(
                    f"cordons: drained by {changes} writes to Slurm; all reported after {reported:.1f} s more",
                ),
            )
        ]

    def _memory(self) -> Figure:
        program = (
            f"{_IMPORTS}\nprint(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
        return Figure(
            name="bridge",
            ours=Series(
                what="bridge, peak memory of each start", seconds=tuple(self._peaks), unit="MiB"
            ),
            rival=Series(what="its imports alone", seconds=(int(done.stdout) / 1024,), unit="MiB"),
            target="at most 120 MiB",
            met=max(self._peaks) <= 120,
        )

    def _shown_figure(self, when: str, numbers: list[int], drained: list[float]) -> Figure:
        reported = self._shown.of(numbers, 300)
        seconds = tuple(at - since for at, since in zip(reported, drained, strict=True))
        ours = Series(what=f"bridge, one drain to its condition {when}", seconds=seconds)
        return Figure(
            name="bridge",
            ours=ours,
            rival=Series(what="the time between two questions to slurmctld", seconds=(QUESTION_S,)),
            target="p99 at most 2 s",
            met=ours.quantile(0.99) <= 2,
        )

    def _drain(self, numbers: list[int], reason: str) -> float:
        """When it was asked for."""
        begun = time.monotonic()
        self._slurm.drain(numbers, reason)
        return begun

    def _next(self) -> int:
        return next(self._unused)


def _raw_patch(number: int, text: str) -> dict[str, object]:
    row = {"type": "Bench", "status": "True", "reason": "Raw", "message": f"run {text}"}
    rows = [{**row, "type": f"Bench{i}"} for i in range(3)]
    labels = {"bench": f"{number}-{text.replace(': ', '-')}"}
    return {"status": {"conditions": rows}, "metadata": {"labels": labels}}


def _own_patch() -> dict[str, object]:
    """What the bridge's account may write. The first sync replaces it."""
    row = {"status": "Unknown", "reason": "Raw", "message": "not seen yet"}
    return {
        "status": {"conditions": [{**row, "type": name} for name in ALWAYS]},
        "metadata": {"labels": {STATE_LABEL: "unknown"}},
    }


def _until(holds: Callable[[], bool], what: str, limit_s: float, pause_s: float = 0.2) -> None:
    end = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > end:
            raise SandboxError(f"{what} did not come within {limit_s:g} s")
        time.sleep(pause_s)

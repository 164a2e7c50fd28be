"""A running box: its processes, commands, nodes and daemons.

Knows nothing of how a box is started or of faults: ``testbed.box.Box`` adds those.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from testbed import slurmctld_pod
from testbed.errors import SandboxError, did_you_mean
from testbed.inside.control import ControlError, ask
from testbed.inside.processes import all_pids, parent_of
from testbed.namespaces import enter
from testbed.namespaces.pidfd import Watch
from testbed.paths import box_folder, boxes
from testbed.shape import CONTROLLER, KUBE_PROGRAMS, Shape

_NODE_READY = "run/sandbox-ready"

AnyBox = TypeVar("AnyBox", bound="RunningBox")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine of a box. ``name`` is its Slurm name, `worker-0`."""

    box: RunningBox
    name: str

    @property
    def sim(self) -> Path:
        """Host path of the node's `/sim`: simulated NVML state, kernel log, sysfs."""
        return self.box.folder / "nodes" / self.name

    @property
    def namespaces_pid(self) -> int:
        """Host pid of the node's pid 1. Raises ``SandboxError`` when the node is powered off."""
        pid = self.box.node_pid(self.name)
        if pid is None:
            raise SandboxError(
                f"{self.name} is powered off; power it on with: sandbox heal {self.name}"
            )
        return pid

    def path(self, inside: str) -> Path:
        """Host path of a file that the node sees as ``inside``; valid while the node is powered on.

        Raises ``SandboxError`` when it is powered off.
        """
        return enter.seen_by(self.namespaces_pid, inside)

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        timeout_s: float = 60,
        check: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``argv`` on the node. It starts in `/`, since the node's filestores may hang."""
        inside = enter.argv_in(self.namespaces_pid, argv, user=user, cwd="/", env=env or {})
        return enter.run(inside, shown=argv, timeout_s=timeout_s, check=check)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningBox:
    """``pid``: host pid of the box's pid 1. ``started``: start time of that process (clock ticks)."""

    folder: Path
    shape: Shape
    pid: int
    started: int

    # -- finding a box ----------------------------------------------------------------------------

    @classmethod
    def find(cls: type[AnyBox], name: str = "default") -> AnyBox:
        """The running box of that name. Raises ``SandboxError`` when there is none."""
        box = cls.look(name)
        if box is None:
            running = [found.shape.name for found in cls.all()]
            hint = did_you_mean(name, running) if running else ""
            start = "scripts/sandbox up" + ("" if name == "default" else f" --name {name}")
            raise SandboxError(f"no box '{name}' is up{hint or f'; start it with: {start}'}")
        return box

    @classmethod
    def look(cls: type[AnyBox], name: str) -> AnyBox | None:
        """The running box of that name, None when there is none."""
        folder = box_folder(name)
        try:
            life = json.loads((folder / "life.json").read_text())
            shape = Shape.from_json((folder / "shape.json").read_text())
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if enter.started_at(life["pid"]) != life["started"]:
            return None
        return cls(folder=folder, shape=shape, pid=life["pid"], started=life["started"])

    @classmethod
    def all(cls: type[AnyBox]) -> list[AnyBox]:
        """Every running box."""
        if not boxes().is_dir():
            return []
        found = (
            cls.look(folder.name)
            for folder in sorted(boxes().iterdir())
            if (folder / "life.json").exists()
        )
        return [box for box in found if box is not None]

    def alive(self) -> bool:
        return enter.started_at(self.pid) == self.started

    # -- commands ---------------------------------------------------------------------------------

    def run(  # noqa: PLR0913 - all but argv by name
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        timeout_s: float = 60,
        check: bool = True,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        cwd: str = "/mnt/training",
    ) -> subprocess.CompletedProcess[str]:
        """Run ``argv`` on the controller.

        Raises ``SandboxError`` on a time-out and, with ``check``, on a non-zero exit status.
        """
        inside = enter.argv_in(self.pid, argv, user=user, cwd=cwd, env=env or {})
        return enter.run(inside, shown=argv, timeout_s=timeout_s, check=check, stdin=stdin)

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """Standard output of kubectl, run as the cluster's admin.

        Raises ``SandboxError`` with kubectl's message.
        """
        program = str(KUBE_PROGRAMS / "kubectl")
        return self.run([program, *args], stdin=stdin, cwd="/", timeout_s=60).stdout

    def path(self, inside: str) -> Path:
        """Host path of a file that the controller sees as ``inside``; valid while the box is up."""
        return enter.seen_by(self.pid, inside)

    def pids(self, node: str) -> list[tuple[int, list[str]]]:
        """(host pid, argv) of every process on a node, or on the controller."""
        first = self.pid if node == CONTROLLER else self.node(node).namespaces_pid
        own = enter.namespace(first)
        return [(pid, enter.argv_of(pid)) for pid in all_pids() if enter.namespace(pid) == own]

    # -- nodes ------------------------------------------------------------------------------------

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(Node(box=self, name=name) for name in self.shape.node_names)

    def node(self, name: str) -> Node:
        """Raises ``SandboxError`` when the box has no such node."""
        if name not in self.shape.node_names:
            raise SandboxError(
                f"no node '{name}' in box '{self.shape.name}'{did_you_mean(name, self.shape.node_names)}"
            )
        return Node(box=self, name=name)

    def node_pid(self, name: str) -> int | None:
        """Host pid of a node's pid 1, None when the node is powered off."""
        own = enter.namespace(self.pid)
        for pid in all_pids():
            words = enter.argv_of(pid)
            if words[-2:] == ["testbed.inside.node", name] and words[0] != "unshare":
                parent = parent_of(pid)
                if parent is not None and enter.namespace(parent) == own:
                    return pid
        return None

    def power_off(self, node: str) -> None:
        """Cut the power: every process of the node has ended when this returns."""
        pid = self.node_pid(self.node(node).name)
        if pid is None:
            return
        with Watch(pid) as watch:
            self.ask("power-off", node)
            watch.wait(f"{node} does not power off")
        self._wait_power(node, on=False)

    def power_on(self, node: str) -> None:
        """Boot with a new boot id and an empty kernel log; returns once slurmd was started."""
        if self.node_pid(self.node(node).name) is None:
            self.ask("power-on", node)
        self._wait_power(node, on=True)

    def reboot(self, node: str) -> None:
        self.power_off(node)
        self.power_on(node)

    def cut(self, node: str) -> None:
        """Unplug the node's network cable; its processes keep running."""
        self.ask("cut", self.node(node).name)

    def join(self, node: str) -> None:
        """Plug the node's network cable in again."""
        self.ask("join", self.node(node).name)

    def _wait_power(self, node: str, *, on: bool) -> None:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            state = self.ask("state")["nodes"]
            assert isinstance(state, dict)  # noqa: S101 - the supervisor's answer
            if not on and node not in state:
                return
            pid = self.node_pid(node) if on else None
            if pid is not None and enter.seen_by(pid, _NODE_READY).exists():
                return
            time.sleep(0.02)
        raise SandboxError(
            f"{node} did not power {'on' if on else 'off'} within 20 s; see: sandbox logs {node}"
        )

    # -- daemons ----------------------------------------------------------------------------------

    def ask(self, verb: str, name: str = "") -> dict[str, object]:
        """Send a request to the box's supervisor.

        Raises ``SandboxError`` with the supervisor's message.
        """
        try:
            return ask(self.folder, do=verb, name=name)
        except ControlError as error:
            raise SandboxError(str(error)) from None

    def daemons(self) -> dict[str, int]:
        """Running daemons of the controller: name -> host pid."""
        inside = self.ask("state")["daemons"]
        assert isinstance(inside, dict)  # noqa: S101 - the supervisor's answer
        own = enter.namespace(self.pid)
        host = {enter.innermost_pid(pid): pid for pid in all_pids() if enter.namespace(pid) == own}
        found = {name: host[pid] for name, pid in inside.items() if pid in host}
        in_pod = slurmctld_pod.find(host.values()) if self.shape.pods else None
        return found if in_pod is None else {**found, slurmctld_pod.NAME: in_pod}

    def signal_daemon(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a daemon of the controller (SIGSTOP, SIGCONT, SIGKILL, …)."""
        running = self.daemons()
        if name not in running:
            raise SandboxError(
                f"{name} is not running in box '{self.shape.name}'{did_you_mean(name, running)}"
            )
        os.kill(running[name], number)

    def start_daemon(self, name: str) -> None:
        """Start a daemon of the controller unless it runs; continue one that was stopped."""
        if self._in_pod(name):
            slurmctld_pod.start(self.kubectl, lambda: name in self.daemons())
        else:
            self._start(name)
        self.signal_daemon(name, signal.SIGCONT)

    def _start(self, name: str) -> None:
        end = time.monotonic() + 20
        while self.ask("start", name).get("ending"):
            if time.monotonic() > end:
                raise SandboxError(f"{name} does not end within 20 s, so it cannot be started")
            time.sleep(0.02)

    def stop_daemon(self, name: str) -> None:
        """Kill a daemon of the controller; it stays down until ``start_daemon``."""
        if self._in_pod(name):
            slurmctld_pod.stop(self.kubectl, self.daemons().get(name))
        else:
            self.ask("stop", name)

    def _in_pod(self, name: str) -> bool:
        return bool(self.shape.pods) and name == slurmctld_pod.NAME

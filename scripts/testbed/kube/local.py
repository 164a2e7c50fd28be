"""A control plane on this host's loopback, for tests that need Kubernetes and no Slurm."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

from testbed.errors import SandboxError
from testbed.kube.plane import ControlPlane, Daemon, kubectl_argv, wait_ready
from testbed.kube.programs import Binaries, binaries
from testbed.paths import cache

START_ATTEMPTS = 3
_STOP_S = 10.0


class ApiServer:
    """etcd and kube-apiserver of one test, with all data under ``folder``.

        with ApiServer(tmp_path) as server:
            server.kubectl("get", "nodes")

    The daemons end with the thread that started them (setpriv --pdeathsig).
    """

    def __init__(self, folder: Path, *, built: Binaries | None = None) -> None:
        """``built``: the programs; by default those of ``scripts/sandbox up``."""
        self._binaries = built or binaries(cache(), lambda text: print(text, flush=True))
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.plane = self._plane_on(free_port())

    def __enter__(self) -> ApiServer:
        for attempt in range(START_ATTEMPTS):
            try:
                self.start()
                return self
            except SandboxError:
                self.close()
                # The port may have been taken meanwhile: try another.
                if attempt + 1 == START_ATTEMPTS:
                    raise
                self.plane = self._plane_on(free_port())
        raise AssertionError("unreachable")

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig."""
        return self.plane.admin_kubeconfig

    @property
    def pids(self) -> tuple[int, ...]:
        """Of etcd and kube-apiserver, as far as they run."""
        return tuple(running.pid for running in self._running.values())

    def kubectl(self, *args: str, stdin: str | None = None, kubeconfig: Path | None = None) -> str:
        """Standard output of kubectl, run as the admin by default.

        Raises ``KubectlError``.
        """
        argv = kubectl_argv(self._binaries.kubectl, kubeconfig or self.kubeconfig, args)
        return run_kubectl(argv, stdin)

    def start(self) -> None:
        """Starts what is not running and waits until it is ready; earlier data is still there."""
        self.plane.prepare()
        for daemon in self.plane.daemons():
            running = self._running.get(daemon.name)
            if running is None or running.poll() is not None:
                self._running[daemon.name] = _spawn(daemon)
        wait_ready(self.kubectl, alive=self._check_daemons)

    def stop(self) -> None:
        """End the API server but not etcd; ``start`` starts it again."""
        self._end("kube-apiserver")

    def close(self) -> None:
        """Ends both daemons, the API server first."""
        for name in ("kube-apiserver", "etcd"):
            self._end(name)

    def _plane_on(self, port: int) -> ControlPlane:
        folder = self._folder.resolve()
        return ControlPlane(
            folder=folder,
            inside=folder,
            binaries=self._binaries,
            address="127.0.0.1",
            listen="127.0.0.1",
            port=port,
        )

    def _check_daemons(self) -> None:
        for name, child in self._running.items():
            if child.poll() is not None:
                log = self._folder / f"{name}.log"
                raise SandboxError(f"{name} ended with status {child.returncode}: {_first(log)}")

    def _end(self, name: str) -> None:
        child = self._running.pop(name, None)
        if child is None:
            return
        # On SIGTERM an API server drains its connections for up to a minute, which is not needed.
        child.kill() if name == "kube-apiserver" else child.terminate()
        try:
            child.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            os.kill(child.pid, signal.SIGKILL)
            child.wait()


class KubectlError(SandboxError):
    """kubectl failed; the text is its message."""


def run_kubectl(argv: list[str], stdin: str | None = None, timeout_s: float = 60.0) -> str:
    """Standard output of one kubectl.

    Raises ``KubectlError`` with its message when it fails or does not end in time.
    """
    try:
        done = subprocess.run(
            argv, input=stdin or "", capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise KubectlError(f"kubectl did not end within {timeout_s:g} s") from None
    if done.returncode:
        raise KubectlError(done.stderr.strip() or f"kubectl ended with status {done.returncode}")
    return done.stdout


def free_port() -> int:
    """A TCP port of loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _spawn(daemon: Daemon) -> subprocess.Popen[bytes]:
    with daemon.log.open("ab") as log:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", *daemon.argv],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _first(log: Path) -> str:
    """First lines of a log: the reason why a daemon did not start, before any usage or stack."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return "no log"
    return " | ".join(lines[:2])[:400] or "empty log"

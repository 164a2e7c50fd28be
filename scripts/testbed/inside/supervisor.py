"""pid 1 of a box: starts and ends daemons and nodes on request, reaps, restarts the bridge, ends with its owner.

    python3 -m testbed.inside.supervisor LIFELINE_FD [OWNER_PIDFD]

LIFELINE is a pipe from the `up` that starts the box. If it closes before `up` has written "settled",
the box ends, so a killed `up` leaves nothing behind. OWNER is a pidfd: the box ends when that process
does. When pid 1 ends, the kernel ends everything else in the namespaces, with all mounts and
interfaces.
"""

from __future__ import annotations

import json
import os
import pwd
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from testbed.h100 import kmsg
from testbed.h100.node import KMSG
from testbed.inside.control import SOCKET
from testbed.inside.daemons import Daemon, catalogue
from testbed.inside.network import cable_in, lay_bridge, set_link
from testbed.inside.processes import first_child
from testbed.shape import INSIDE, NODE_PATH, Shape

_BOOT_ID = Path("/proc/sys/kernel/random/uuid")
Answer = dict[str, object]


class Refusal(Exception):
    """A request that cannot be met; its text is sent to the client."""


class Supervisor:
    """One thread with one loop; every request is short. It never waits for a process of the box."""

    def __init__(self, shape: Shape, catalogue: Mapping[str, Daemon]) -> None:
        self.shape = shape
        self.catalogue = catalogue
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.cut: set[str] = set()
        self.unwanted: set[str] = set()
        self.rebooting: set[str] = set()
        self.due: dict[str, float] = {}
        self.verbs: dict[str, Callable[[str], Answer]] = {
            "start": self.start,
            "stop": self.stop,
            "power-on": self.power_on,
            "power-off": self.power_off,
            "reboot": self.reboot,
            "cut": lambda node: self.set_cable(node, plugged=False),
            "join": lambda node: self.set_cable(node, plugged=True),
            "state": self.state,
        }

    # -- daemons ------------------------------------------------------------------------------------------------

    def start(self, name: str) -> Answer:
        """``ending``: the daemon was stopped and has not ended yet; ask again."""
        daemon = self._daemon(name)
        if name in self.unwanted and name in self.daemons:
            return {"ending": True}
        self.unwanted.discard(name)
        if name not in self.daemons:
            self.daemons[name] = _spawn(daemon)
        return {"pid": self.daemons[name].pid}

    def stop(self, name: str) -> Answer:
        """End a daemon without a restart, even one stopped by SIGSTOP."""
        self._daemon(name)
        self.unwanted.add(name)
        self.due.pop(name, None)
        child = self.daemons.get(name)
        if child is not None:
            child.send_signal(signal.SIGKILL)
        return {"stopped": child is not None}

    # -- nodes --------------------------------------------------------------------------------------------------

    def power_on(self, node: str) -> Answer:
        """Boot: new namespaces, a new boot id, a new kernel log."""
        self._known(node)
        if node in self.nodes:
            raise Refusal(f"{node} is already powered on")
        sim = INSIDE / "nodes" / node
        sim.mkdir(parents=True, exist_ok=True)
        (sim / "boot_id").write_text(_BOOT_ID.read_text())
        kmsg.begin(sim / KMSG)
        log = (Path("/var/log/slurm") / f"node.{node}.log").open("ab")
        with log:
            self.nodes[node] = subprocess.Popen(
                [
                    "unshare", "--mount", "--pid", "--uts", "--ipc", "--net", "--fork", "--kill-child=KILL",
                    "--mount-proc", "--propagation", "private",
                    sys.executable, "-u", "-m", "testbed.inside.node", node,
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.cut.discard(node)
        cable_in(node, self.nodes[node].pid)
        return {"pid": self.nodes[node].pid}

    def power_off(self, node: str) -> Answer:
        """Power loss: no process can write another byte."""
        self._known(node)
        child = self.nodes.get(node)
        if child is not None:
            # The node's pid 1, not unshare: unshare exits only when the whole node has ended.
            os.kill(first_child(child.pid) or child.pid, signal.SIGKILL)
        return {"had_power": child is not None}

    def reboot(self, node: str) -> Answer:
        self.power_off(node)
        if node in self.nodes:
            self.rebooting.add(node)
        else:
            self.power_on(node)
        return {}

    def set_cable(self, node: str, *, plugged: bool) -> Answer:
        self._known(node)
        if node not in self.nodes:
            raise Refusal(f"{node} is powered off")
        set_link(node, up=plugged)
        (self.cut.discard if plugged else self.cut.add)(node)
        return {}

    def state(self, _: str) -> Answer:
        return {
            "daemons": {name: child.pid for name, child in self.daemons.items()},
            "nodes": {node: "cut" if node in self.cut else "on" for node in self.nodes},
        }

    def _daemon(self, name: str) -> Daemon:
        if name not in self.catalogue:
            raise Refusal(f"no daemon {name}")
        return self.catalogue[name]

    def _known(self, node: str) -> None:
        if node not in self.shape.node_names:
            raise Refusal(f"no node {node}")

    # -- the loop -----------------------------------------------------------------------------------------------

    def answer(self, line: bytes) -> Answer:
        try:
            request = json.loads(line)
            verb = self.verbs.get(request["do"])
            if verb is None:
                raise Refusal(f"unknown request {request['do']}")
            return verb(str(request.get("name", "")))
        except (ValueError, KeyError, TypeError) as error:
            return {"error": f"not a request: {error!r}"}
        except (Refusal, OSError, subprocess.CalledProcessError) as error:
            return {"error": str(error)}

    def reap(self, now: float) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._ended(pid, status, now)

    def _ended(self, pid: int, status: int, now: float) -> None:
        for table in (self.daemons, self.nodes):
            for name, child in list(table.items()):
                if child.pid != pid:
                    continue
                child.returncode = os.waitstatus_to_exitcode(status)
                del table[name]
                self._note(f"{name} ended ({child.returncode})")
                if name in self.rebooting:
                    self.rebooting.discard(name)
                    self.due[name] = now
                wait_s = self.catalogue[name].restart_s if name in self.catalogue else None
                if wait_s is not None and name not in self.unwanted:
                    self.due[name] = now + wait_s

    def restart(self, now: float) -> float | None:
        """Start what is due. Returns the seconds until the next start."""
        for name in [name for name, at in self.due.items() if at <= now]:
            del self.due[name]
            self.start(name) if name in self.catalogue else self.power_on(name)
            self._note(f"{name} restarted")
        return max(0.0, min(self.due.values()) - now) if self.due else None

    @staticmethod
    def _note(text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def _spawn(daemon: Daemon) -> subprocess.Popen[bytes]:
    user = pwd.getpwnam(daemon.user)
    for folder in daemon.folders:
        Path(folder).mkdir(parents=True, exist_ok=True)
        subprocess.run(["chown", "-R", f"{user.pw_uid}:{user.pw_gid}", folder], check=True)
    with Path(daemon.log).open("ab") as log:
        os.fchown(log.fileno(), user.pw_uid, user.pw_gid)
        return subprocess.Popen(
            daemon.argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={
                "PATH": NODE_PATH,
                "LANG": "C.UTF-8",
                "HOME": user.pw_dir,
                "USER": user.pw_name,
                **daemon.env,
            },
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=os.getgrouplist(user.pw_name, user.pw_gid),
            start_new_session=True,
        )


def _listen() -> socket.socket:
    path = INSIDE / SOCKET
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(16)
    return listener


def _serve_one(listener: socket.socket, supervisor: Supervisor) -> None:
    channel, _ = listener.accept()
    with channel:
        channel.settimeout(2)
        try:
            with channel.makefile("rb") as lines:
                line = lines.readline()
            channel.sendall(json.dumps(supervisor.answer(line)).encode() + b"\n")
        except OSError:
            pass  # the client has gone


def _wakeups() -> int:
    """A descriptor that becomes readable when a child has ended."""
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    return wake_read


def _serve(
    supervisor: Supervisor, watch: selectors.DefaultSelector, listener: socket.socket
) -> None:
    """Serve requests until the owner is gone, or the lifeline closes before "settled"."""
    while True:
        for key, _ in watch.select(supervisor.restart(time.monotonic())):
            if key.data == "request":
                _serve_one(listener, supervisor)
            elif key.data == "child":
                os.read(key.fd, 4096)
            elif key.data == "lifeline" and os.read(key.fd, 64):
                watch.unregister(key.fd)
            else:
                return
        supervisor.reap(time.monotonic())


def _default_signals() -> None:
    """Reset signals that the caller ignores (nohup, a background job), so that daemons and jobs do not inherit it."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def main(argv: list[str]) -> int:
    _default_signals()
    shape = Shape.from_json((INSIDE / "shape.json").read_text())
    names = ("lifeline", "owner")[: len(argv)]
    given = dict(zip(map(int, argv), names, strict=True))
    for fd in given:
        os.set_inheritable(fd, False)
    try:
        lay_bridge()
    except subprocess.CalledProcessError:
        print("this kernel refuses a network bridge: modprobe bridge veth", flush=True)
        return 1
    with selectors.DefaultSelector() as watch, _listen() as listener:
        given |= {_wakeups(): "child", listener.fileno(): "request"}
        for fd, name in given.items():
            watch.register(fd, selectors.EVENT_READ, name)
        _serve(Supervisor(shape, catalogue(INSIDE, pods=bool(shape.pods))), watch, listener)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

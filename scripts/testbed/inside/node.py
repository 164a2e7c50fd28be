"""pid 1 of a node: sets up its file systems and network, starts slurmd, reaps. Only a power loss ends it.

In a box with pods it starts kubelet instead, which starts the worker pod with slurmd.

python3 -m testbed.inside.node worker-0
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from testbed.shape import DISKS, INSIDE, Shape, address

READY = Path("/run/sandbox-ready")
"""Exists on a node (in its own /run) once slurmd was started, or what starts it."""

START_SLURMD = "/opt/sandbox/start-slurmd"


def main(argv: list[str]) -> int:
    node = argv[0]
    subprocess.run(["hostname", node], check=True)
    shape = Shape.from_json((INSIDE / "shape.json").read_text())
    _own_filesystems(node, installed=shape.holdfast)
    _network(node)
    if shape.pods:
        _kubernetes_node(node)
        status = 0
    else:
        status = subprocess.run([START_SLURMD, "-b"], check=False).returncode
    READY.write_text(f"{status}\n")
    while True:
        signal.sigwait({signal.SIGCHLD})
        _reap()


def _kubernetes_node(node: str) -> None:
    """Starts what runs pods, in a mount namespace of its own."""
    alone = ["unshare", "--mount", "--propagation", "private"]
    with Path(f"/var/log/slurm/machine.{node}.log").open("ab") as log:
        subprocess.Popen(
            [*alone, sys.executable, "-u", "-m", "testbed.inside.machine", node],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def _own_filesystems(node: str, *, installed: bool) -> None:
    """The node's /run, /tmp, /dev/shm, disk for /var/lib/holdfast and /sim with its boot id. munged is shared.

    Where Holdfast is not ``installed``, its folder is not there yet: the disk is that of /var/lib.
    """
    Path("/mnt/.munge").mkdir(exist_ok=True)
    _mount("--bind", "/run/munge", "/mnt/.munge")
    _mount("-t", "tmpfs", "-o", "mode=755", "run", "/run")
    Path("/run/munge").mkdir()
    _mount("--move", "/mnt/.munge", "/run/munge")
    Path("/run/slurm").mkdir()
    for folder in ("/tmp", "/dev/shm"):  # noqa: S108 - mounted for this node
        _mount("-t", "tmpfs", "-o", "mode=1777", "tmp", folder)
    if not installed:
        _own_folder("/var/lib", DISKS / node)
    for source, target in (
        *(((INSIDE / "disks" / node, "/var/lib/holdfast"),) if installed else ()),
        (INSIDE / "nodes" / node, "/sim"),
    ):
        source.mkdir(parents=True, exist_ok=True)
        Path(target).mkdir(parents=True, exist_ok=True)
        _mount("--bind", str(source), target)
    # A local disk in the mount table: filesystem faults in the kernel log name this device.
    Path("/mnt/scratch").mkdir(exist_ok=True)
    _mount("-t", "tmpfs", "-o", "mode=1777,size=16m", "/dev/nvme0n1p1", "/mnt/scratch")
    _mount("--bind", "/sim/boot_id", "/proc/sys/kernel/random/boot_id")


def _own_folder(path: str, disk: Path) -> None:
    """What the node writes below ``path`` is on its own disk; it sees what was there before."""
    for name in ("upper", "work"):
        (disk / name).mkdir(parents=True, exist_ok=True)
    layers = f"lowerdir={path},upperdir={disk}/upper,workdir={disk}/work"
    _mount("-t", "overlay", "-o", layers, "disk", path)


def _network(node: str) -> None:
    while not Path("/proc/self/net/dev").read_text().count("eth0:"):
        time.sleep(0.01)
    for words in (
        ("link", "set", "lo", "up"),
        ("addr", "add", f"{address(node)}/24", "dev", "eth0"),
        ("link", "set", "eth0", "up"),
    ):
        subprocess.run(["ip", *words], check=True)


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    sys.exit(main(sys.argv[1:]))

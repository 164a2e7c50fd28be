"""pid 1 of a node: sets up its file systems and network, starts slurmd, reaps. Only a power loss ends it.

python3 -m testbed.inside.node worker-0
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from testbed.shape import INSIDE, address

READY = Path("/run/sandbox-ready")
"""Exists on a node (in its own /run) once slurmd was started."""

START_SLURMD = "/opt/sandbox/start-slurmd"


def main(argv: list[str]) -> int:
    node = argv[0]
    subprocess.run(["hostname", node], check=True)
    _own_filesystems(node)
    _network(node)
    started = subprocess.run([START_SLURMD, "-b"], check=False)
    READY.write_text(f"{started.returncode}\n")
    while True:
        signal.sigwait({signal.SIGCHLD})
        _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def _own_filesystems(node: str) -> None:
    """The node's /run, /tmp, /dev/shm, disk for /var/lib/holdfast and /sim with its boot id. munged is shared."""
    Path("/mnt/.munge").mkdir(exist_ok=True)
    _mount("--bind", "/run/munge", "/mnt/.munge")
    _mount("-t", "tmpfs", "-o", "mode=755", "run", "/run")
    Path("/run/munge").mkdir()
    _mount("--move", "/mnt/.munge", "/run/munge")
    Path("/run/slurm").mkdir()
    for folder in ("/tmp", "/dev/shm"):  # noqa: S108 - mounted for this node
        _mount("-t", "tmpfs", "-o", "mode=1777", "tmp", folder)
    for source, target in (
        (INSIDE / "disks" / node, "/var/lib/holdfast"),
        (INSIDE / "nodes" / node, "/sim"),
    ):
        source.mkdir(parents=True, exist_ok=True)
        Path(target).mkdir(parents=True, exist_ok=True)
        _mount("--bind", str(source), target)
    # A local disk in the mount table: filesystem faults in the kernel log name this device.
    Path("/mnt/scratch").mkdir(exist_ok=True)
    _mount("-t", "tmpfs", "-o", "mode=1777,size=16m", "/dev/nvme0n1p1", "/mnt/scratch")
    _mount("--bind", "/sim/boot_id", "/proc/sys/kernel/random/boot_id")


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

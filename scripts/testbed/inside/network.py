"""The box's network: a bridge with one veth pair for each node."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from testbed.shape import CONTROLLER_ADDRESS, address, link

_BRIDGE = "br0"


def _ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=not check)


def lay_bridge() -> None:
    """Create the bridge. Slurm needs an address besides loopback: it resolves names with AI_ADDRCONFIG."""
    _ip("link", "set", "lo", "up")
    _ip("link", "add", _BRIDGE, "type", "bridge")
    _ip("addr", "add", f"{CONTROLLER_ADDRESS}/24", "dev", _BRIDGE)
    _ip("link", "set", _BRIDGE, "up")


def cable_in(node: str, pid: int) -> None:
    """Connect the bridge with the network namespace that ``pid`` is about to create, as its eth0."""
    own = Path("/proc/self/ns/net").readlink()
    end = time.monotonic() + 10
    while Path(f"/proc/{pid}/ns/net").readlink() == own:
        if time.monotonic() > end:
            raise OSError(f"{node} did not get a network namespace")
        time.sleep(0.005)
    _ip("link", "del", link(node), check=False)  # the old link may outlast the node for a moment
    # A machine keeps its hardware address over a power cycle. With another address its
    # neighbours would use the old one for a minute (srun: "Communication connection failure").
    mac = "02:00:" + ":".join(f"{int(part):02x}" for part in address(node).split("."))
    peer = ("peer", "name", "eth0", "address", mac, "netns", str(pid))
    _ip("link", "add", link(node), "type", "veth", *peer)
    _ip("link", "set", link(node), "master", _BRIDGE, "up")


def set_link(node: str, *, up: bool) -> None:
    _ip("link", "set", link(node), "up" if up else "down")

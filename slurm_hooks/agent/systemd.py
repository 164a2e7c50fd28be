"""Telling systemd that the agent works, where a unit of ``Type=notify`` started it (sd_notify(3)).

The agent is ready with its first verdict, and alive as long as its loop turns: with ``WatchdogSec=`` in
the unit, one that hangs is ended and started again.
"""

from __future__ import annotations

import os
import socket

VARIABLE = "NOTIFY_SOCKET"


def notify(*lines: str) -> bool:
    """Send state lines (``READY=1``) to the supervisor; False where there is none. Never raises, and
    never waits: a supervisor that does not read loses a message.
    """
    address = os.environ.get(VARIABLE, "")
    if not address.startswith(("/", "@")):
        return False
    # systemd's abstract sockets begin with @, the kernel's with a zero byte.
    target = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.setblocking(False)
            channel.connect(target)
            channel.send("\n".join(lines).encode())
    except OSError:
        return False
    return True


def works(status: str) -> None:
    """Ready, and alive at this moment; ``status`` is a line for ``systemctl status``."""
    notify("READY=1", "WATCHDOG=1", f"STATUS={' '.join(status.split())}")


def lives() -> None:
    """Alive at this moment."""
    notify("WATCHDOG=1")


def leaves() -> None:
    """The end has begun in order."""
    notify("STOPPING=1")

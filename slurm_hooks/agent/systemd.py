"""Messages to systemd, if a unit of ``Type=notify`` started the agent (sd_notify(3)).

The agent is ready with its first verdict, and alive as long as its loop runs. With ``WatchdogSec=``
in the unit systemd restarts an agent that hangs.
"""

from __future__ import annotations

import os
import socket

VARIABLE = "NOTIFY_SOCKET"


def notify(*lines: str) -> bool:
    """Send state lines (``READY=1``) to systemd; False if there is none. Never raises and never
    waits: if systemd does not read, the message is lost.
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


def ready(status: str) -> None:
    """Ready and alive; ``status`` is a line for ``systemctl status``."""
    notify("READY=1", "WATCHDOG=1", f"STATUS={' '.join(status.split())}")


def watchdog() -> None:
    """Alive."""
    notify("WATCHDOG=1")


def stopping() -> None:
    """A clean stop has begun."""
    notify("STOPPING=1")

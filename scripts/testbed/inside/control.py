"""Requests to a box's supervisor: one JSON line each way over a Unix socket in the box's folder."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

SOCKET = "control.sock"


class ControlError(Exception):
    """The supervisor refused a request or does not answer."""


def ask(folder: Path, timeout_s: float = 30, **request: object) -> dict[str, object]:
    """The supervisor's answer to ``request`` (its key ``do`` names the verb).

    Raises ``ControlError`` with the supervisor's message.
    """
    # Through a descriptor: a socket path has at most 107 bytes, a folder's path may be longer.
    where = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(timeout_s)
            channel.connect(f"/proc/self/fd/{where}/{SOCKET}")
            channel.sendall(json.dumps(request).encode() + b"\n")
            with channel.makefile("rb") as lines:
                line = lines.readline()
    except OSError as error:
        raise ControlError(
            f"the box's supervisor does not answer: {error.strerror or error}"
        ) from None
    finally:
        os.close(where)
    answer: dict[str, object] = json.loads(
        line or b'{"error": "the supervisor closed the connection"}'
    )
    if "error" in answer:
        raise ControlError(str(answer["error"]))
    return answer

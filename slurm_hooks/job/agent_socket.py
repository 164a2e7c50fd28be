"""The launcher's side of the socket: sends markers to this node's agent.

The agent may be down, restarting or stopped, so one try takes a second at most. A marker that the
agent did not accept is sent again from a thread, until the agent accepts it or a newer one.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

from slurm_hooks.job import marker as markers
from slurm_hooks.job.marker import Marker

_TIMEOUT_S = 1.0
"""For one try: connect, send, receive."""
_PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_WARN_AFTER = 5
"""Tries. The agent may open the socket a moment after the job's start, or be restarting."""
_NO_ANSWER = "no answer"
_CREDENTIALS = struct.Struct("3i")
_ROOT = 0
_OVERFLOW_UID = Path("/proc/sys/kernel/overflowuid")


class AgentLink:
    """``last``: the marker that the agent accepted last; ``None``: none yet. ``warn`` is told once if the
    agent does not answer for long."""

    def __init__(self, run_dir: Path, *, warn: Callable[[str], None]) -> None:
        self._run_dir, self._warn = run_dir, warn
        self._lock = threading.Lock()
        self._waiting: Marker | None = None
        self._thread: threading.Thread | None = None
        self._warned = False
        self.last: Marker | None = None

    def send(self, marker: Marker, *, for_s: float = 0.0) -> bool:
        """True when the agent accepted the marker, at once or within ``for_s`` (only where the agent
        has answered before). Otherwise the thread keeps trying."""
        with self._lock:
            until = time.monotonic() + (for_s if self.last else 0.0)
            self._waiting = marker
            problem = self._try()
            for pause_s in _PAUSES_S:
                if not problem or time.monotonic() + pause_s >= until:
                    break
                time.sleep(pause_s)
                problem = self._try()
        if problem and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(target=self._retry, name="agent-link", daemon=True)
            self._thread.start()
        return not problem

    def flush(self, for_s: float) -> None:
        """Before the launcher exits: tries again to send what waits, for ``for_s``. An agent takes few
        packets of a user in a second, so those of a user with many jobs may wait."""
        until = time.monotonic() + for_s
        with self._lock:
            for pause_s in _PAUSES_S:
                problem = self._try() if self._waiting else ""
                absent = problem and self.last is None and problem != _NO_ANSWER
                if not problem or absent or time.monotonic() + pause_s >= until:
                    return
                time.sleep(pause_s)

    def _retry(self) -> None:
        tries = 0
        while True:
            time.sleep(_PAUSES_S[min(tries, len(_PAUSES_S) - 1)])
            tries += 1
            with self._lock:
                problem = self._try() if self._waiting else ""
            if not problem:
                return
            if tries == _WARN_AFTER and not self._warned:
                self._warned = True
                self._warn(
                    f"cannot reach this node's agent ({problem}); retrying. Until it answers, a "
                    "requeued job waits for Slurm's own delay"
                )

    def _try(self) -> str:
        """Why the waiting marker was not accepted, empty if it was. The caller holds the lock."""
        assert self._waiting is not None  # noqa: S101 - set by both callers
        problem = deliver(self._run_dir, self._waiting)
        if not problem:
            self.last, self._waiting = self._waiting, None
        return problem


def deliver(run_dir: Path, marker: Marker, timeout_s: float = _TIMEOUT_S) -> str:
    """One try. Why the agent did not accept the marker, empty if it did."""
    return deliver_packet(run_dir, markers.encoded(marker), timeout_s)


def deliver_packet(run_dir: Path, data: bytes, timeout_s: float = _TIMEOUT_S) -> str:
    """The same for a packet of any kind."""
    path = markers.socket_of(run_dir, os.geteuid())
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
            link.settimeout(timeout_s)
            link.connect(os.fspath(path))
            if not _is_trusted(link):
                return f"{path} does not belong to root"
            link.send(data)
            answer = link.recv(256).decode(errors="replace").strip()
    except TimeoutError:
        return _NO_ANSWER
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    return "" if answer == markers.TAKEN else answer or "the agent closed the connection"


def _is_trusted(link: socket.socket) -> bool:
    """Whether root or this user listens there. In a container's user namespace without the machine's
    root, root shows as the overflow uid (user_namespaces(7))."""
    size = _CREDENTIALS.size
    peer = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    uid = _CREDENTIALS.unpack(peer)[1]
    return uid in (_ROOT, os.geteuid(), int(_OVERFLOW_UID.read_text()))

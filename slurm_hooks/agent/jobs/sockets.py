"""Where launchers hand in their markers: one socket for each user with a job on this node.

Inside the agent's own loop: no thread, and nothing that waits. A socket belongs to its user, so that
nobody else can connect to it: one user's flood fills his own queue of connections and no other. From
each queue so many are taken in a second, whatever is in it.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.adapters.log import Log
from slurm_hooks.job import marker as markers
from slurm_hooks.job.marker import Marker

log = Log("agent")

MAX_USERS = 64
_BACKLOG = 16
_MAX_CLIENTS = 4
"""Of one user, that have connected and said nothing yet."""
_PATIENCE_S = 2.0
_BURST, _PER_S = 32.0, 1.0
"""Connections of one user at once, and in each second after that. A launcher makes about three."""
_TICK_S = 0.5
"""Users over their rate are looked at together, so that many of them wake the agent no more often."""
_CREDENTIALS = struct.Struct("3i")

Jobs = Mapping[int, frozenset[int]]
"""uid → numbers of the jobs that he has on this node, by the prolog's word."""


@dataclass(slots=True)
class _User:
    """One user's socket. ``credit``: connections that may be taken now; ``later``: when the next."""

    uid: int
    listener: socket.socket
    credit: float = _BURST
    counted_at: float = 0.0
    later: float = 0.0
    clients: list[tuple[socket.socket, float]] = field(default_factory=list)


class JobSockets:
    """``take`` keeps a marker and returns why it does not, or nothing."""

    def __init__(self, run_dir: Path, take: Callable[[Marker], str]) -> None:
        self._run_dir, self._take = run_dir, take
        self._users: dict[int, _User] = {}
        self._jobs: Jobs = {}
        self._last_problem = ""
        folder = markers.socket_folder(run_dir)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        for path in folder.iterdir():  # an earlier agent's
            with contextlib.suppress(OSError):
                path.unlink()

    @property
    def next_at(self) -> float:
        """Monotonic time of the next thing to do without being woken."""
        times = [until for user in self._users.values() for _, until in user.clients]
        return min(
            [*times, *(user.later for user in self._users.values() if user.later)], default=math.inf
        )

    def fds(self) -> Iterator[tuple[int, int]]:
        """Descriptors and what to wait for at each, as ``select.poll`` takes them."""
        for user in self._users.values():
            if not user.later and len(user.clients) < _MAX_CLIENTS:
                yield user.listener.fileno(), select.POLLIN
            for client, _ in user.clients:
                yield client.fileno(), select.POLLIN

    def serve(self, jobs: Jobs) -> None:
        """Opens the sockets of users who have come, and closes those of users who have gone."""
        if jobs == self._jobs and not self._last_problem:
            return
        self._jobs = jobs
        for uid in [uid for uid in self._users if uid not in jobs]:
            self._close(self._users.pop(uid))
        for uid in list(jobs)[-MAX_USERS:]:
            if uid not in self._users:
                self._open(uid)

    def turn(self, now: float) -> None:
        """Do what can be done at once. Never raises."""
        for user in self._users.values():
            self._accept(user, now)
            for one in list(user.clients):
                client, until = one
                if now >= until or self._served(user, client):
                    client.close()
                    user.clients.remove(one)

    def close(self) -> None:
        for user in self._users.values():
            self._close(user)
        self._users = {}

    # -- one user's socket

    def _open(self, uid: int) -> None:
        path = markers.socket_of(self._run_dir, uid)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            listener.setblocking(False)
            path.unlink(missing_ok=True)
            listener.bind(os.fspath(path))
            path.chmod(0o600)
            problem = _chown_to(path, uid)
            listener.listen(_BACKLOG)  # until here nobody can connect
        except OSError as error:
            listener.close()
            problem = f"{path}: {error.strerror or error}"
        else:
            self._users[uid] = _User(uid, listener)
        if problem and problem != self._last_problem:
            log.error("socket for jobs", why=problem)
        self._last_problem = problem

    def _close(self, user: _User) -> None:
        for sock in (user.listener, *(client for client, _ in user.clients)):
            sock.close()
        with contextlib.suppress(OSError):
            markers.socket_of(self._run_dir, user.uid).unlink(missing_ok=True)

    def _accept(self, user: _User, now: float) -> None:
        user.credit = min(_BURST, user.credit + (now - user.counted_at) * _PER_S)
        user.counted_at = now
        while len(user.clients) < _MAX_CLIENTS:
            if user.credit < 1:
                user.later = (math.floor(now / _TICK_S) + 1) * _TICK_S
                return
            user.later = 0.0
            try:
                client, _ = user.listener.accept()
            except OSError:  # nobody is there, or left again, or we have no descriptor to spare
                return
            user.credit -= 1
            client.setblocking(False)
            if self._served(user, client):
                client.close()
            else:
                user.clients.append((client, now + _PATIENCE_S))

    def _served(self, user: _User, client: socket.socket) -> bool:
        """True once there is nothing more to do for the client: one packet, one answer."""
        try:
            data = client.recv(markers.MAX_BYTES + 1)
        except BlockingIOError:
            return False
        except OSError:
            return True
        problem = self._problem_of(user, client, data) if data else "nothing was said"
        with contextlib.suppress(OSError):  # he has left, or does not read
            client.send(f"no: {problem}".encode() if problem else markers.TAKEN.encode())
        return True

    def _problem_of(self, user: _User, client: socket.socket, data: bytes) -> str:
        """Why the packet is not taken; empty: it is."""
        uid = peer(client)
        if uid not in (user.uid, 0):  # where root may not give the socket away (see _chown_to)
            return "this is another user's socket"
        try:
            marker = markers.decoded(data)
        except ValueError as error:
            return str(error)
        if marker.job not in self._jobs.get(user.uid, ()):
            return f"job {marker.job} is not on this node, or not yours"
        return self._take(replace(marker, owner=user.uid))


def peer(client: socket.socket) -> int:
    """The uid of who connected, by the kernel's word. Raises OSError."""
    found = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(found)[1])


def _chown_to(path: Path, uid: int) -> str:
    """Makes the socket the user's. Where the agent may not (a unit of an earlier release takes
    CAP_CHOWN away), anybody can connect and is sent away by his uid: the answer says so."""
    try:
        os.chown(path, uid, -1, follow_symlinks=False)
    except OSError as error:
        path.chmod(0o666)
        return f"{path}: chown: {error.strerror or error}: other users can keep it busy"
    return ""

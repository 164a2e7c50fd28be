"""The sockets that receive the launchers' markers: one for each user with a job on this node.

They are served in the agent's own loop, without threads and without waiting. A socket belongs to
its user, so other users cannot connect to it, and a flood of connections fills only that user's own
queue. The number of connections taken from each queue per second is limited.
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
from slurm_hooks.job import notice as notices
from slurm_hooks.job.marker import Marker
from slurm_hooks.job.notice import Notice

log = Log("agent")

MAX_USERS = 64
_BACKLOG = 16
_MAX_CLIENTS = 4
"""Connections of one user that have not sent anything yet."""
_PATIENCE_S = 2.0
_BURST, _PER_S = 32.0, 1.0
"""Connections of one user at once, and per second after that. A launcher makes about three."""
_TICK_S = 0.5
"""Users over their rate are served at the same moments, so that many of them do not wake the agent
more often."""
_CREDENTIALS = struct.Struct("3i")

Jobs = Mapping[int, frozenset[int]]
"""uid → ids of that user's jobs on this node, as the prolog reported them."""


@dataclass(slots=True)
class _User:
    """One user's socket. ``credit``: connections that may be taken now; ``later``: when the next
    one may be taken, 0 if that is now."""

    uid: int
    listener: socket.socket
    credit: float = _BURST
    counted_at: float = 0.0
    later: float = 0.0
    clients: list[tuple[socket.socket, float]] = field(default_factory=list)


class JobSockets:
    """``take`` stores a marker, ``tell`` passes on a notice; each returns why it cannot, or an empty
    text."""

    def __init__(
        self,
        run_dir: Path,
        take: Callable[[Marker], str],
        tell: Callable[[Notice], str] = lambda _: "",
    ) -> None:
        self._run_dir, self._take, self._tell = run_dir, take, tell
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
        """Open sockets for users with jobs here, and close those of users who have none any more."""
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
            for client, until in list(user.clients):
                if now >= until or self._served(user, client):
                    client.close()
                    user.clients.remove((client, until))

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
            listener.listen(_BACKLOG)  # before this call no client can connect
        except OSError as error:
            listener.close()
            problem = f"{path}: {error.strerror or error}"
        else:
            self._users[uid] = _User(uid, listener)
        if problem and problem != self._last_problem:
            log.error("no socket for jobs of a user", why=problem)
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
            except OSError:  # no client, or it has left, or no file descriptor is available
                return
            user.credit -= 1
            client.setblocking(False)
            if self._served(user, client):
                client.close()
            else:
                user.clients.append((client, now + _PATIENCE_S))

    def _served(self, user: _User, client: socket.socket) -> bool:
        """True once the client is served: one packet, one answer."""
        try:
            data = client.recv(markers.MAX_BYTES + 1)
        except BlockingIOError:
            return False
        except OSError:
            return True
        problem = self._problem_of(user, client, data) if data else "empty message"
        with contextlib.suppress(OSError):  # the client has left, or does not read
            client.send(f"no: {problem}".encode() if problem else markers.TAKEN.encode())
        return True

    def _problem_of(self, user: _User, client: socket.socket, data: bytes) -> str:
        """Why the packet is not accepted. Empty if it is."""
        uid = peer(client)
        if uid not in (
            user.uid,
            0,
        ):  # possible if the agent may not chown the socket (see _chown_to)
            return "this socket belongs to another user"
        try:
            sent = notices.decoded(data) or markers.decoded(data)
        except (ValueError, ArithmeticError, TypeError) as error:  # no packet may end the agent
            return str(error)
        if sent.job not in self._jobs.get(user.uid, ()):
            return f"job {sent.job} is not on this node, or not yours"
        owned = replace(sent, owner=user.uid)
        return self._tell(owned) if isinstance(owned, Notice) else self._take(owned)


def peer(client: socket.socket) -> int:
    """The uid of the connected process, as the kernel reports it. Raises OSError."""
    found = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(found)[1])


def _chown_to(path: Path, uid: int) -> str:
    """Make the user the owner of the socket. If the agent may not do that (the systemd unit of an
    earlier release drops CAP_CHOWN), any user can connect, and others are refused by uid. Returns
    that problem."""
    try:
        os.chown(path, uid, -1, follow_symlinks=False)
    except OSError as error:
        path.chmod(0o666)
        return f"{path}: chown: {error.strerror or error}: other users can connect and keep it busy"
    return ""

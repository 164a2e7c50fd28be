"""The datagrams and the connects of ``node_death``. Nothing here waits."""

from __future__ import annotations

import errno
import select
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from slurm_hooks.agent.node_death.wire import MAX_BYTES

_MOST_DATAGRAMS = 512
_MOST_CONNECTS = 64
_CONNECT_S = 2.0
_LIVES = {0, errno.ECONNREFUSED, errno.ECONNRESET}
"""A refused connect is an answer of that node's kernel too."""
_NO_ANSWER = {errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.EHOSTDOWN}


class Connect(NamedTuple):
    """An answer to a connect. ``lives``: the node's kernel answered; else this node could not try."""

    name: str
    lives: bool


class Network:
    """``port``: UDP, and TCP where normally nobody listens. Raises OSError if it cannot be bound."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._connects: dict[socket.socket, tuple[str, float]] = {}
        self._ended: list[Connect] = []
        try:
            self._socket.setblocking(False)
            self._socket.bind(("", port))
        except OSError:
            self._socket.close()
            raise

    def send(self, data: bytes, address: str) -> None:
        """A datagram that cannot be sent is lost, as on the way."""
        with suppress(OSError):
            self._socket.sendto(data, (address, self._port))

    def receive(self) -> Iterator[bytes]:
        """The datagrams that have arrived, oldest first."""
        for _ in range(_MOST_DATAGRAMS):
            try:
                yield self._socket.recv(MAX_BYTES + 1)
            except BlockingIOError:
                return
            except OSError:
                continue  # an ICMP error about an earlier datagram

    def connect(self, name: str, address: str, port: int, now: float) -> None:
        """Begin a connect to ``port``; 0: the port of the heartbeats."""
        if len(self._connects) >= _MOST_CONNECTS:
            return
        try:
            attempt = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        except OSError:
            self._ended.append(Connect(name, lives=False))
            return
        attempt.setblocking(False)
        try:
            status = attempt.connect_ex((address, port or self._port))
        except OSError:
            status = errno.EINVAL
        if status == errno.EINPROGRESS:
            self._connects[attempt] = (name, now)
        else:
            self._end(attempt, name, status)

    def answers(self, now: float) -> list[Connect]:
        """What became of the connects, since the last call."""
        poll = select.poll()
        by_fd = {attempt.fileno(): attempt for attempt in self._connects}
        for fd in by_fd:
            poll.register(fd, select.POLLOUT)
        for fd, _ in poll.poll(0) if by_fd else ():
            attempt = by_fd[fd]
            name, _ = self._connects.pop(attempt)
            self._end(attempt, name, attempt.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        for attempt, (_, since) in list(self._connects.items()):
            if now - since > _CONNECT_S:
                del self._connects[attempt]
                attempt.close()
        found, self._ended = self._ended, []
        return found

    def _end(self, attempt: socket.socket, name: str, status: int) -> None:
        attempt.close()
        if status not in _NO_ANSWER:
            self._ended.append(Connect(name, lives=status in _LIVES))

    def close(self) -> None:
        for attempt in self._connects:
            attempt.close()
        self._connects.clear()
        self._socket.close()

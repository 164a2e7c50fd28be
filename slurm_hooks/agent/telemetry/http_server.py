"""Serves the metrics over HTTP, by default on loopback, inside the agent's own loop, without threads
and without waiting.

A client that is slow, silent or invalid costs one file descriptor for a few seconds. Each response
is the text of the last pass, so a scrape starts no probe.

Any user may connect, but a user has only a few connections: a further one replaces the user's
oldest. Clients of other machines count as one user. If all connections are in use, the user with
the most loses one. The number of connections accepted per second is limited, so that a flood leaves
the agent time for its work.
"""

from __future__ import annotations

import select
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator

from holdfast.adapters.log import Log
from slurm_hooks.agent.telemetry import tcp_owner
from slurm_hooks.agent.telemetry.exposition import CONTENT_TYPE

log = Log("agent")

HOST = "127.0.0.1"
MAX_CLIENTS = 16
MAX_OF_ONE_USER = 4
_BACKLOG = 128
_PER_SECOND = 100
"""Connections accepted per second; one costs about 100 microseconds."""
MAX_REQUEST_BYTES = 8192
_PATIENCE_S = 5.0
_RETRY_S = 60.0
"""Seconds between two tries for a port that is in use."""


class MetricsServer:
    """``port`` None: nothing is served. ``text`` returns the page."""

    def __init__(self, port: int | None, text: Callable[[], str], host: str = HOST) -> None:
        self._port, self._text, self._host = port, text, host
        self._listener: socket.socket | None = None
        self._clients: list[_Client] = []
        self._next_try = 0.0
        self._last_problem = ""
        self._second, self._taken = 0, 0

    @property
    def next_at(self) -> float:
        """Monotonic time from which more connections are accepted, or at which one times out."""
        paused = [self._second + 1.0] if self._taken >= _PER_SECOND else []
        return min([client.until for client in self._clients] + paused, default=float("inf"))

    def fds(self) -> Iterator[tuple[int, int]]:
        """Descriptors and what to wait for at each, as ``select.poll`` takes them."""
        if self._listener is not None and self._taken < _PER_SECOND:
            yield self._listener.fileno(), select.POLLIN
        for client in self._clients:
            yield client.socket.fileno(), select.POLLOUT if client.answer else select.POLLIN

    def turn(self, now: float) -> None:
        """Do what can be done at once; ``now`` on the monotonic clock. Never raises."""
        if self._port is None:
            return
        if self._listener is None and now >= self._next_try:
            self._listen(now)
        self._accept(now)
        for client in list(self._clients):
            if now >= client.until or not self._serve(client):
                self._let_go(client)

    def close(self) -> None:
        for client in self._clients:
            client.socket.close()
        self._clients = []
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _listen(self, now: float) -> None:
        self._next_try = now + _RETRY_S
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setblocking(False)
            listener.bind((self._host, self._port))
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            why = f"{self._host}:{self._port}: {error.strerror or error}"
            if why != self._last_problem:
                log.error("metrics not served", why=why)
            self._last_problem = why
            return
        self._listener, self._last_problem = listener, ""

    def _accept(self, now: float) -> None:
        if int(now) != self._second:
            self._second, self._taken = int(now), 0
        while self._listener is not None and self._taken < _PER_SECOND:
            try:
                accepted, _ = self._listener.accept()
            except OSError:  # no client, or it has left, or no file descriptor is available
                return
            accepted.setblocking(False)
            self._taken += 1
            client = _Client(accepted, now + _PATIENCE_S, tcp_owner.owner(accepted))
            # A scraper sends its request right after connecting, so most are answered here.
            if self._serve(client):
                self._make_room(client.owner)
                self._clients.append(client)
            else:
                client.socket.close()

    def _make_room(self, owner: int | None) -> None:
        """Make room for one more connection of this user. The list has the oldest first."""
        held = Counter(client.owner for client in self._clients)
        if held[owner] >= MAX_OF_ONE_USER:
            most = owner
        elif len(self._clients) >= MAX_CLIENTS:
            most = held.most_common(1)[0][0]
        else:
            return
        self._let_go(next(client for client in self._clients if client.owner == most))

    def _let_go(self, client: _Client) -> None:
        client.socket.close()
        self._clients.remove(client)

    def _serve(self, client: _Client) -> bool:
        """False once the client is served."""
        try:
            if not client.answer:
                chunk = client.socket.recv(4096)
                client.request += chunk
                over = len(client.request) > MAX_REQUEST_BYTES
                if not over and chunk and b"\r\n\r\n" not in client.request:
                    return True
                if not chunk:
                    return False
                client.answer = answer(b"" if over else client.request, self._text)
            sent = client.socket.send(client.answer)
            client.answer = client.answer[sent:]
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        return bool(client.answer)


class _Client:
    """One connection: its owner, the request so far, and the part of the response not sent yet."""

    def __init__(self, accepted: socket.socket, until: float, owner: int | None) -> None:
        self.socket, self.until, self.owner = accepted, until, owner
        self.request, self.answer = b"", b""


def answer(request: bytes, text: Callable[[], str]) -> bytes:
    """The whole response to a request. Pure except for ``text``."""
    words = request.split(b"\r\n", 1)[0].split(b" ")
    method, path = (words[0], words[1].split(b"?")[0]) if len(words) == 3 else (b"", b"")
    if not words[-1].startswith(b"HTTP/1."):
        return _response("400 Bad Request", "only HTTP/1 is supported\n")
    if method not in (b"GET", b"HEAD"):
        return _response("405 Method Not Allowed", "GET /metrics\n", "Allow: GET, HEAD\r\n")
    if path != b"/metrics":
        return _response("404 Not Found", "GET /metrics\n")
    return _response("200 OK", text(), body=method == b"GET", kind=CONTENT_TYPE)


def _response(
    status: str, text: str, more: str = "", *, body: bool = True, kind: str = "text/plain"
) -> bytes:
    data = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n"
    head += f"{more}Connection: close\r\nDate: {_date()}\r\n\r\n"
    return head.encode() + (data if body else b"")


def _date() -> str:
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())

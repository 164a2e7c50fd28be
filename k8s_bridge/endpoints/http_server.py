"""The bridge's HTTP server: GET and HEAD of a few paths, for probes, Prometheus and the status page.

Clients are untrusted. Each connection has one request, a thread and a time limit. With the maximum number
of connections, the oldest one is closed: a probe always gets an answer, whatever other clients do.
"""

from __future__ import annotations

import gzip
import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from urllib.parse import parse_qs, urlsplit

from holdfast.adapters.log import Log

log = Log("bridge")

MOST_CONNECTIONS = 64
LONGEST_S = 10.0
"""How long one connection may take, from the first byte of the request to the last one of the answer."""
_LEAST_ZIPPED = 1024
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """``query`` has the first value of each name; ``accept`` is the header of that name."""

    query: Mapping[str, str] = field(default_factory=dict)
    accept: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """``zipped``: the body in gzip, if it is at hand."""

    body: bytes
    kind: str = "text/plain; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    zipped: bytes | None = None


Route = Callable[[Request], Response]


def serve(
    routes: Mapping[str, Route], host: str, port: int, *, names: Collection[str] | None = None
) -> Server | None:
    """Serve these paths until ``Server.stop``. None, and one line in the log, if the port cannot be used:
    the bridge runs without them.

    ``names``: the host names that a request may name besides IP addresses and localhost; another one is
    refused, because a web page could let its own name point here (DNS rebinding). None: any name.
    """
    try:
        server = Server((host, port), routes, names)
    except (OSError, OverflowError) as error:
        log.error(
            "HTTP server not started",
            at=f"{host}:{port}",
            why=getattr(error, "strerror", "") or error,
        )
        return None
    server.start()
    log.info("HTTP server started", at=f"http://{host}:{server.port}", paths=",".join(routes))
    return server


class Server(ThreadingMixIn, TCPServer):
    """A server that is bound to its port. ``start`` begins to answer."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        routes: Mapping[str, Route],
        names: Collection[str] | None = None,
    ):
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self.routes, self.names = routes, names
        self._lock = threading.Lock()
        self._open: dict[socket.socket, float] = {}
        super().__init__(address, _Handler)

    @property
    def port(self) -> int:
        """The port that is served; of use where 0 was asked for."""
        return int(self.server_address[1])

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, name="http", daemon=True).start()

    def stop(self) -> None:
        """Answer nobody any more, and give the port back."""
        self.shutdown()
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            crowded = len(self._open) >= MOST_CONNECTIONS
            oldest = next(iter(self._open)) if crowded else None
            self._open[request] = time.monotonic()
        if oldest is not None:
            self._end(oldest)
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Called twice a second: ends connections that take too long."""
        limit = time.monotonic() - LONGEST_S
        with self._lock:
            late = [request for request, at in self._open.items() if at < limit]
        for request in late:
            self._end(request)

    def _end(self, request: socket.socket) -> None:
        """The connection's thread gets an error from its next read or write, and closes it."""
        with self._lock:
            self._open.pop(request, None)
        try:
            request.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves or is too slow. It is not logged."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = LONGEST_S
    server_version = "holdfast"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(self._response())

    def do_HEAD(self) -> None:
        self._answer(self._response())

    def _response(self) -> Response:
        if not self._named_well():
            text = b"this host name is not served; use an address, localhost or bridge.page_names\n"
            return Response(body=text, status=403)
        try:
            url = urlsplit(self.path)
            query = {
                name: found[0] for name, found in parse_qs(url.query, max_num_fields=8).items()
            }
        except ValueError:
            return Response(body=b"this query cannot be read\n", status=400)
        route = self.server.routes.get(url.path)
        if route is None:
            paths = "\n".join(sorted(self.server.routes))
            return Response(body=f"not found; the paths here:\n{paths}\n".encode(), status=404)
        try:
            return route(Request(query=query, accept=self.headers.get("Accept", "")))
        except Exception as error:
            log.exception("request failed", error, path=url.path)
            return Response(body=b"internal error; see the bridge's log\n", status=500)

    def _named_well(self) -> bool:
        names = self.server.names
        if names is None:
            return True
        try:
            host = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
        except ValueError:  # brackets without an address
            return False
        return host == "localhost" or host in names or _is_address(host)

    def _answer(self, response: Response) -> None:
        body = response.body
        zips = "gzip" in self.headers.get("Accept-Encoding", "") and len(body) >= _LEAST_ZIPPED
        if zips:
            body = response.zipped or gzip.compress(body, 5)
        self.send_response(response.status)
        self.send_header("Content-Type", response.kind)
        self.send_header("Content-Length", str(len(body)))
        if zips:
            self.send_header("Content-Encoding", "gzip")
        for name, value in {**_HEADERS, **response.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True

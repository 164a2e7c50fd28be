"""Short requests to the API server over connections that stay open.

A library for any server takes 1 ms of processor time for a request, this module a quarter of it: in a storm
of writes that is what the bridge's own time is. It knows what an API server, or a load balancer before it,
answers in HTTP/1.1. Proxies and unusual checks of certificates are left to the library.
"""

from __future__ import annotations

import io
import select
import socket
import ssl
import weakref
from collections.abc import Mapping
from typing import Any, NamedTuple, cast
from urllib.parse import quote, urlencode, urlsplit

from k8s_bridge.kube.protobuf.fields import MOST_BYTES

_BUFFER = 1 << 16
_LONGEST_LINE = 1 << 16
_MOST_HEADERS = 200
_UNUSUAL = ("proxy", "assert_hostname", "tls_server_name", "socket_options")
"""Settings of the library with which it sends the requests itself."""


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    reason: str
    body: bytes


class Limits(NamedTuple):
    """Seconds: to connect, and between two parts of an answer."""

    connect_s: float
    read_s: float


class ShortRequests:
    """Requests to one server. Several threads may use it at once, each on a connection of its own.

    Raises ``OSError`` or ``ValueError`` where there is no whole answer.
    """

    def __init__(self, settings: Any):
        """``settings``: the library's, for which ``usable`` holds."""
        self._settings = settings
        url = urlsplit(settings.host)
        self._secure = url.scheme == "https"
        self._address = url.hostname or "", url.port or (443 if self._secure else 80)
        self._host, self._prefix = url.netloc, url.path.rstrip("/")
        self._idle: list[_Connection] = []  # append and pop are atomic
        weakref.finalize(self, _close, self._idle)

    @staticmethod
    def usable(settings: Any) -> bool:
        """Is there nothing in these settings of the library that only it can do?"""
        url = urlsplit(settings.host)
        plain = url.scheme in ("http", "https") and bool(url.hostname) and "@" not in url.netloc
        usual = all(getattr(settings, name, None) is None for name in _UNUSUAL)
        return plain and usual and bool(settings.verify_ssl)

    def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes,
        limits: Limits,
    ) -> Answer:
        """One request. It is sent once: whether to repeat it is the caller's decision."""
        target = self._prefix + quote(path) + (f"?{urlencode(query)}" if query else "")
        head = [f"{method} {target} HTTP/1.1", f"Host: {self._host}"]
        head += [f"{name}: {value}" for name, value in headers.items()]
        head.append(f"Content-Length: {len(body)}\r\n\r\n")
        request = "\r\n".join(head).encode("ascii") + body
        connection = self._connection(limits)
        try:
            answer, stays = connection.ask(request, limits.read_s)
        except BaseException:
            connection.close()
            raise
        if stays:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def _connection(self, limits: Limits) -> _Connection:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread took it
                break
            if connection.is_open():
                return connection
            connection.close()
        return _Connection(self._opened(limits.connect_s))

    def _opened(self, limit_s: float) -> socket.socket:
        plain = socket.create_connection(self._address, limit_s)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not self._secure:
                return plain
            return self._context().wrap_socket(plain, server_hostname=self._address[0])
        except BaseException:
            plain.close()
            raise

    def _context(self) -> ssl.SSLContext:
        """As the library makes it, for each connection: certificates are renewed in their files."""
        from urllib3.util.ssl_ import create_urllib3_context  # noqa: PLC0415 - after the library

        settings, context = self._settings, create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED)
        context.check_hostname = True
        context.set_alpn_protocols(["http/1.1"])
        if settings.ssl_ca_cert:
            context.load_verify_locations(settings.ssl_ca_cert)
        else:
            context.load_default_certs()
        if settings.cert_file:
            context.load_cert_chain(settings.cert_file, settings.key_file)
        return context


def _close(idle: list[_Connection]) -> None:
    while idle:
        idle.pop().close()


class _Connection:
    def __init__(self, opened: socket.socket):
        self._socket = opened
        self._answers = cast("io.BufferedReader", opened.makefile("rb", _BUFFER))

    def is_open(self) -> bool:
        """An idle connection has nothing to read, unless the server closed it."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def ask(self, request: bytes, limit_s: float) -> tuple[Answer, bool]:
        """The answer, and whether the connection stays open after it."""
        self._socket.settimeout(limit_s)
        self._socket.sendall(request)
        while True:
            version, status, reason = _status(_line(self._answers))
            headers = _headers(self._answers)
            if status >= 200:
                break
        stays = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
        body, ended = _body(self._answers, status, headers)
        return Answer(status, reason, body), stays and ended


def _line(answers: io.BufferedReader) -> str:
    line = answers.readline(_LONGEST_LINE)
    if not line:
        raise ConnectionError("the server closed the connection")
    if not line.endswith(b"\n"):
        raise ValueError("a line of the answer does not end")
    return line.decode("latin-1").rstrip("\r\n")


def _status(line: str) -> tuple[str, int, str]:
    version, _, rest = line.partition(" ")
    code, _, reason = rest.partition(" ")
    if not version.startswith("HTTP/1.") or not (code.isascii() and code.isdigit()):
        raise ValueError(f"no answer in HTTP/1: {line[:80]!r}")
    return version, int(code), reason


def _headers(answers: io.BufferedReader) -> dict[str, str]:
    found: dict[str, str] = {}
    for _ in range(_MOST_HEADERS):
        line = _line(answers)
        if not line:
            return found
        name, _, value = line.partition(":")
        found[name.lower()] = value.strip()
    raise ValueError(f"more than {_MOST_HEADERS} headers")


def _body(
    answers: io.BufferedReader, status: int, headers: Mapping[str, str]
) -> tuple[bytes, bool]:
    """The body, and whether the next answer may follow it."""
    if status in (204, 304):
        return b"", True
    coding = headers.get("transfer-encoding")
    if coding is not None:
        if coding.lower() != "chunked":
            raise ValueError(f"an answer in the coding {coding[:40]!r}")
        return _chunks(answers), True
    if "content-length" in headers:
        return _exactly(answers, _checked(int(headers["content-length"]))), True
    data = answers.read(MOST_BYTES + 1)
    _checked(len(data))
    return data, False


def _chunks(answers: io.BufferedReader) -> bytes:
    pieces: list[bytes] = []
    total = 0
    while size := _checked(int(_line(answers).partition(";")[0].strip(), 16)):
        total = _checked(total + size)
        pieces.append(_exactly(answers, size))
        if _line(answers):
            raise ValueError("a part of the answer is longer than it says")
    while _line(answers):
        pass  # trailers
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _checked(size: int) -> int:
    if not 0 <= size <= MOST_BYTES:
        raise ValueError(f"an answer of {size} bytes")
    return size


def _exactly(answers: io.BufferedReader, size: int) -> bytes:
    data = answers.read(size)
    if len(data) != size:
        raise ConnectionError("the connection ended before the answer")
    return data

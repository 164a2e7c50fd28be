"""The HTTP server: untrusted clients, and an answer for a probe whatever they do."""

from __future__ import annotations

import gzip
import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from k8s_bridge.endpoints import http_server
from k8s_bridge.endpoints.http_server import Request, Response, Server

LONG = b"x" * 5000


def failing(request: Request) -> Response:
    raise RuntimeError("secret detail")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 8)
    routes = {
        "/healthz": lambda _: Response(body=b"ok\n"),
        "/long": lambda request: Response(body=LONG + request.query.get("q", "").encode()),
        "/fails": failing,
    }
    found = http_server.serve(routes, "127.0.0.1", 0, names=("holdfast.example.org",))
    assert found is not None
    yield found
    found.stop()


def asked(
    server: Server, path: str, method: str = "GET", **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer, answer.read()


def test_paths_methods_and_headers(server: Server) -> None:
    answer, body = asked(server, "/healthz")
    assert (answer.status, body) == (200, b"ok\n")
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    answer, body = asked(server, "/healthz", "HEAD")
    assert (answer.status, body, answer.headers["Content-Length"]) == (200, b"", "3")
    assert asked(server, "/etc/passwd")[0].status == 404
    assert asked(server, "/healthz", "POST")[0].status == 501
    assert asked(server, "/long?" + "a=1&" * 50)[0].status == 400
    assert asked(server, "/long?q=%ff")[1].endswith("\ufffd".encode())
    answer, body = asked(server, "/fails")
    assert answer.status == 500
    assert b"secret" not in body


def test_a_long_answer_is_compressed_for_those_who_read_it(server: Server) -> None:
    answer, body = asked(server, "/long", **{"Accept-Encoding": "gzip"})
    assert answer.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body) == LONG
    assert len(body) < len(LONG) / 10
    assert asked(server, "/long")[1] == LONG


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:9647", 200),
        ("127.0.0.1:9647", 200),
        ("[::1]:9647", 200),
        ("holdfast.example.org", 200),
        ("attacker.example.com", 403),
        ("", 403),
        ("[::1", 403),
        ("[x]", 403),
    ],
)
def test_another_host_name_is_refused(server: Server, host: str, status: int) -> None:
    assert asked(server, "/healthz", Host=host)[0].status == status


def test_clients_that_hold_all_connections_do_not_hold_up_a_probe(server: Server) -> None:
    with ExitStack() as held:
        for _ in range(24):
            client = socket.create_connection(("127.0.0.1", server.port))
            held.enter_context(closing(client))
            client.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        assert asked(server, "/healthz")[1] == b"ok\n"


def is_closed(client: socket.socket) -> bool:
    try:
        client.sendall(b"G")
    except OSError:
        return True
    return False


def test_a_client_that_sends_slowly_is_cut_off(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "LONGEST_S", 0.5)
    with closing(socket.create_connection(("127.0.0.1", server.port))) as client:
        client.settimeout(30)
        end = time.monotonic() + 30
        while not is_closed(client) and time.monotonic() < end:
            time.sleep(0.1)
        assert time.monotonic() < end


def test_a_port_in_use_does_not_stop_the_bridge(
    server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    # A port is shared by no two servers that listen.
    assert http_server.serve({}, "127.0.0.1", server.port) is None
    error = capfd.readouterr().err
    assert (
        f'HTTP server not started at=127.0.0.1:{server.port} why="Address already in use"' in error
    )

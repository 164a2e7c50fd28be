"""Answers in the forms that HTTP/1.1 allows, from a server that sends what the test says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from k8s_bridge.kube.short_requests import Answer, Limits, ShortRequests

OK = b"HTTP/1.1 200 OK\r\n"
TWO = OK + b"Content-Length: 2\r\n\r\nab"
LIMITS = Limits(30, 30)


class Server:
    """``answers``: for each connection, the answers to its requests. It closes the connection after the last
    one. ``seen``: the requests.
    """

    def __init__(self) -> None:
        self.answers: list[list[bytes]] = []
        self.seen: list[bytes] = []
        self.closed = threading.Semaphore(0)
        self._listens = socket.create_server(("127.0.0.1", 0))
        self.port = self._listens.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self.answers = []
        with socket.create_connection(("127.0.0.1", self.port)):
            self._thread.join()
        self._listens.close()

    def _run(self) -> None:
        while True:
            connection, _ = self._listens.accept()
            with connection:
                if not self.answers:
                    return
                for answer in self.answers.pop(0):
                    self.seen.append(_request(connection))
                    connection.sendall(answer)
            self.closed.release()


def _request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data and (more := connection.recv(65536)):
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    size = int(head.rpartition(b"Content-Length: ")[2].split()[0])
    while len(body) < size and (more := connection.recv(65536)):
        body += more
    return head + b"\r\n\r\n" + body


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.end()


def settings(port: int, **changed: Any) -> Any:
    usual = {"host": f"http://127.0.0.1:{port}/prefix", "verify_ssl": True, "proxy": None}
    return SimpleNamespace(**usual | changed)


def get(short: ShortRequests, body: bytes = b"") -> Answer:
    return short.send("PATCH", "/a b", {"x": "1&2"}, {"Accept": "text"}, body, LIMITS)


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (TWO, b"ab"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + TWO, b"ab"),
        (
            OK + b"Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\nT: 1\r\n\r\n",
            b"abc",
        ),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
)
def test_each_form_of_an_answer_leaves_the_connection_for_the_next(
    server: Server, answer: bytes, body: bytes
) -> None:
    server.answers = [[answer, TWO]]
    short = ShortRequests(settings(server.port))
    assert get(short, b"{}").body == body
    assert get(short).body == b"ab"
    assert (
        server.seen[0]
        == (
            f"PATCH /prefix/a%20b?x=1%262 HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
            "Accept: text\r\nContent-Length: 2\r\n\r\n{}"
        ).encode()
    )


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nab",
        OK + b"\r\nab",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab",
    ],
)
def test_after_an_answer_that_ends_its_connection_there_is_another(
    server: Server, answer: bytes
) -> None:
    server.answers = [[answer], [TWO]]
    short = ShortRequests(settings(server.port))
    assert get(short) == get(short) == Answer(200, "OK", b"ab")


def test_a_connection_that_the_server_closed_meanwhile_is_not_used(server: Server) -> None:
    server.answers = [[TWO], [TWO]]
    short = ShortRequests(settings(server.port))
    get(short)
    assert server.closed.acquire(timeout=30)
    assert get(short).body == b"ab"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        OK,
        OK + b"Content-Length: 3\r\n\r\nab",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: 99999999999\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
        OK + b"Transfer-Encoding: gzip\r\n\r\nab",
        OK + b"A: b\r\n" * 300 + b"\r\n",
        OK + b"A: " + b"b" * 70000,
        b"HTTP/2 200 OK\r\n\r\n",
        b"220 mail ready\r\n\r\n",
    ],
)
def test_no_part_of_an_answer_is_taken_for_the_whole(server: Server, answer: bytes) -> None:
    """And after it comes a new connection."""
    server.answers = [[answer], [TWO]]
    short = ShortRequests(settings(server.port))
    with pytest.raises((OSError, ValueError)):
        get(short)
    assert get(short).body == b"ab"


def test_a_header_cannot_hold_a_character_beyond_ascii(server: Server) -> None:
    short = ShortRequests(settings(server.port))
    server.answers = [[TWO]]
    with pytest.raises(ValueError, match="ascii"):
        short.send("GET", "/", {}, {"X": "\u00e9"}, b"", LIMITS)
    assert server.seen == []
    get(short)


@pytest.mark.parametrize(
    "changed",
    [
        {"proxy": "http://proxy:3128"},
        {"verify_ssl": False},
        {"tls_server_name": "other"},
        {"assert_hostname": False},
        {"host": "https://user@host"},
        {"host": "unix:///run/api"},
    ],
)
def test_unusual_settings_are_left_to_the_library(changed: dict[str, Any]) -> None:
    assert ShortRequests.usable(settings(6443))
    assert not ShortRequests.usable(settings(6443, **changed))

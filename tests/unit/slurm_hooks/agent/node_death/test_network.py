"""Real sockets on loopback."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from slurm_hooks.agent.node_death.network import Connect, Network


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network(free_port())
    yield made
    made.close()


def answers(network: Network, within_s: float = 5.0) -> list[Connect]:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        found = network.answers(time.monotonic())
        if found:
            return found
        time.sleep(0.01)
    return []


def test_a_datagram_arrives(network: Network) -> None:
    network.send(b"beat", "127.0.0.1")
    end = time.monotonic() + 5
    got: list[bytes] = []
    while not got and time.monotonic() < end:
        got = list(network.receive())
    assert got == [b"beat"]
    assert list(network.receive()) == []


def test_a_refused_connect_shows_that_the_node_lives(network: Network) -> None:
    network.connect("w", "127.0.0.1", 0, time.monotonic())
    assert answers(network) == [Connect("w", lives=True)]


def test_so_does_an_accepted_one(network: Network) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        network.connect("w", "127.0.0.1", server.getsockname()[1], time.monotonic())
        assert answers(network) == [Connect("w", lives=True)]


def test_no_answer_is_no_sign(network: Network) -> None:
    """A listener with a full queue drops further connects, as a machine without power does."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        address = server.getsockname()
        held = []
        for _ in range(3):
            held.append(socket.socket())
            held[-1].setblocking(False)
            held[-1].connect_ex(address)
        network.connect("w", "127.0.0.1", address[1], time.monotonic())
        assert answers(network, 0.3) == []
        assert network.answers(time.monotonic() + 60) == []  # given up, not reported
        for one in held:
            one.close()


def test_a_node_that_cannot_try_says_so(network: Network) -> None:
    network.connect("w", "not an address", 0, time.monotonic())
    assert answers(network) == [Connect("w", lives=False)]


def test_a_port_that_is_taken_raises(network: Network) -> None:
    with pytest.raises(OSError, match="in use"):
        Network(network._port)

"""The nodes of a job in pairs: which node is to blame, and the exchange of data over real sockets."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from slurm_hooks.active import pairs
from slurm_hooks.active.pairs import Pair
from slurm_hooks.active.result import CheckOutcome
from slurm_hooks.job.diagnosis.causes import Engine
from slurm_hooks.job.diagnosis.lines.line import Cause
from slurm_hooks.job.progress.pairs import pair_on_node, pair_test
from slurm_hooks.job.progress.pairs.pair_test import PairTest, is_due, judge, outcomes, text

TIMEOUT = (
    "[Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2398459, OpType=ALLREDUCE, "
    "NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800068 milliseconds before timing out."
)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
PASSED, FAILED, ERROR = CheckOutcome.PASSED, CheckOutcome.FAILED, CheckOutcome.ERROR


def cause(line: str) -> Cause:
    engine = Engine()
    engine.feed("stderr", f"{line}\n".encode())
    found = engine.diagnosis().cause
    assert found is not None
    return found


def test_the_second_timeout_that_names_no_rank_is_investigated() -> None:
    one = cause(TIMEOUT)
    before = one.fingerprint
    assert is_due(one, suspects=False, progressed=False, before=before, nodes=3)
    other = before.replace("ALLREDUCE", "BROADCAST")
    assert is_due(one, suspects=False, progressed=None, before=other, nodes=3)
    assert not is_due(one, suspects=False, progressed=False, before="", nodes=3), "the first"
    assert not is_due(one, suspects=False, progressed=False, before="exit:1", nodes=3)
    assert not is_due(one, suspects=True, progressed=False, before=before, nodes=3)
    assert not is_due(one, suspects=False, progressed=True, before=before, nodes=3)
    assert not is_due(one, suspects=False, progressed=False, before=before, nodes=2)
    assert not is_due(None, suspects=False, progressed=False, before="", nodes=3)
    full = cause(OOM)
    assert not is_due(full, suspects=False, progressed=False, before=full.fingerprint, nodes=3)


def both_rounds(nodes: list[str], bad: set[str], broken: set[frozenset[str]]) -> PairTest:
    """Both rounds where pairs with a bad node and broken pairs fail."""

    def outcome(pair: Pair) -> CheckOutcome:
        return FAILED if bad & set(pair) or frozenset(pair) in broken else PASSED

    first = {pair: outcome(pair) for wave in pairs.first_round(nodes) for pair in wave}
    second = {pair: outcome(pair) for wave in pairs.second_round(first) for pair in wave}
    return judge(first, second)


@pytest.mark.parametrize("count", range(3, 10))
def test_one_bad_node_is_found_among_any_number(count: int) -> None:
    nodes = [f"n{number}" for number in range(count)]
    for bad in nodes:
        assert set(both_rounds(nodes, {bad}, set()).failed) == {bad}


@pytest.mark.parametrize("count", range(3, 8))
def test_one_broken_connection_blames_no_node(count: int) -> None:
    nodes = [f"n{number}" for number in range(count)]
    for pair in itertools.combinations(nodes, 2):
        assert both_rounds(nodes, set(), {frozenset(pair)}).failed == {}


def test_a_network_that_failed_as_a_whole_blames_no_node() -> None:
    nodes = [f"n{number}" for number in range(6)]
    assert both_rounds(nodes, set(nodes), set()).failed == {}
    assert both_rounds(nodes, set(nodes[:5]), set()).failed == {}


def test_a_good_node_is_never_blamed() -> None:
    nodes = [f"n{number}" for number in range(6)]
    for count in range(7):
        for bad in itertools.combinations(nodes, count):
            assert set(both_rounds(nodes, set(bad), set()).failed) <= set(bad)


def test_what_each_side_tells() -> None:
    pair = ("a", "b")
    assert outcomes((pair,), {"a": "", "b": ""}) == {pair: PASSED}
    assert outcomes((pair,), {"a": "", "b": "sending: broken"}) == {pair: FAILED}
    assert outcomes((pair,), {"a": ""}) == {pair: FAILED}
    assert outcomes((pair,), {}) == {pair: ERROR}, "srun did not start"
    other = ("c", "d")
    found = outcomes((pair, other), {"a": "", "b": ""})
    assert found == {pair: PASSED, other: FAILED}


def test_the_result_in_words() -> None:
    assert text(PairTest(failed={}, tested=0)) == "pairs of nodes: the test could not run"
    assert "none of the nodes is to blame" in text(PairTest(failed={}, tested=3))
    one = PairTest(failed={"n2": ("n1", "n3")}, tested=3)
    assert text(one) == "pairs of nodes: n2 failed with n1 and n3"
    assert text(replace(one, failed={})) != text(one)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    monkeypatch.setattr(pair_on_node, "_BYTES", 4 << 20)
    with pair_on_node.listen(pair_on_node.own_address("127.0.0.1")) as one:
        yield one


def _serve(server: socket.socket, seconds: float) -> tuple[threading.Thread, list[str]]:
    found: list[str] = []
    thread = threading.Thread(
        target=lambda: found.append(pair_on_node.serve(server, b"token", seconds)), daemon=True
    )
    thread.start()
    return thread, found


def test_two_nodes_exchange_data(server: socket.socket) -> None:
    thread, found = _serve(server, 60.0)
    address, port = server.getsockname()[:2]
    assert pair_on_node.call(address, port, b"token") == ""
    thread.join(60.0)
    assert found == [""]


def test_a_stranger_is_sent_away_and_the_partner_still_served(server: socket.socket) -> None:
    thread, found = _serve(server, 60.0)
    address, port = server.getsockname()[:2]
    with socket.create_connection((address, port)) as stranger:
        stranger.sendall(b"x" * 32)
        assert stranger.recv(32) == b""
    assert pair_on_node.call(address, port, b"guess") == "the partner's answer is wrong"
    assert pair_on_node.call(address, port, b"token") == ""
    thread.join(60.0)
    assert found == [""]


def test_strangers_that_say_nothing_delay_nobody(server: socket.socket) -> None:
    thread, found = _serve(server, 4.0)
    address, port = server.getsockname()[:2]
    silent = [socket.create_connection((address, port)) for _ in range(8)]
    assert pair_on_node.call(address, port, b"token") == ""
    thread.join(60)
    for link in silent:
        link.close()
    assert found == [""]


def test_a_partner_that_does_not_come_or_does_not_listen(server: socket.socket) -> None:
    assert pair_on_node.serve(server, b"token", 0.2) == "no connection from the partner"
    address, port = server.getsockname()[:2]
    server.close()
    assert "Connection refused" in pair_on_node.call(address, port, b"token")


def test_a_connection_that_breaks_or_stalls_is_a_failure(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_on_node, "_TRANSFER_S", 1.0)
    proof = pair_on_node._proof
    for closes in (True, False):
        thread, found = _serve(server, 60.0)
        with socket.create_connection(server.getsockname()[:2]) as partner:
            partner.sendall(proof(b"token", b"client"))
            assert partner.recv(32) == proof(b"token", b"server")
            if closes:
                partner.close()
            thread.join(60.0)
        assert found[0] != "", f"closed: {closes}"


def test_reports_of_a_node_are_read_and_garbage_is_not() -> None:
    records: list[dict[str, object]] = [
        {"node": "a", "listens": ["::1", 7]},
        {"node": "b", "listens": "no"},
        {"node": "c"},
    ]
    assert pair_test._listening(records) == {"a": ("::1", 7)}

"""The metrics, read by Prometheus' own parser, and served to normal and hostile clients."""

from __future__ import annotations

import http.client
import os
import re
import select
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from holdfast.findings import Finding
from holdfast.vocabulary import Action, Mode, Severity, Status
from slurm_hooks.agent.drain.messages import SlurmStatus
from slurm_hooks.agent.telemetry import http_server, tcp_owner
from slurm_hooks.agent.telemetry.exposition import Sample, counter, gauge, render
from slurm_hooks.agent.telemetry.http_server import (
    MAX_CLIENTS,
    MAX_OF_ONE_USER,
    MetricsServer,
    answer,
)
from slurm_hooks.agent.telemetry.metrics import AgentCounts, AgentSnapshot, text_of
from slurm_hooks.evaluation.judge import OpenFinding
from slurm_hooks.facts import (
    Blind,
    ClockFacts,
    GpuFacts,
    KmsgFacts,
    MountFacts,
    MountState,
    NodeFacts,
    NvmlFacts,
    PortFacts,
)
from slurm_hooks.settings.sections import AgentConfig

XID79 = Finding(
    code="XID79",
    severity=Severity.FATAL,
    subject="GPU-3",
    detail="GPU 3 fell off",
    action=Action.REBOOT,
    gpu=3,
    check="gpu_xid",
)
GPUS = tuple(
    GpuFacts(
        index=n,
        uuid=f"GPU-{n}",
        state_code=15 if n == 3 else None,
        temperature_c=40 + n,
        thermal_margin_c=40,
        uncorrected=0,
        remap_pending=False,
        recovery_action=0,
        nvlinks=(True,) * 17 + (n != 5,),
        thermal_violation_ns=2_500_000_000,
        sw_thermal_slowdown_ns=500_000_000,
        hw_thermal_slowdown_ns=2_000_000_000,
        hw_power_brake_slowdown_ns=1_500_000_000,
    )
    for n in range(8)
)
FULL = NodeFacts(
    expected_gpus=8,
    nvml=NvmlFacts(count=8, gpus=GPUS),
    kmsg=KmsgFacts(lost_records=2),
    mounts=(
        MountFacts(path='/mnt/odd "name"\n', state=MountState.OK, latency_s=0.002, free_bytes=1),
        MountFacts(path="/mnt/hung", state=MountState.HUNG),
    ),
    ports=(PortFacts(device="mlx5_0", port=1, state="ACTIVE", link_downed=3),),
    clock=ClockFacts(skew_s=-0.25, error_s=0.5),
    blind=(Blind(probe="pcie", why="no answer", passes=4),),
)


def snapshot(facts: NodeFacts = FULL, slurm_status: SlurmStatus | None = None) -> AgentSnapshot:
    counts = AgentCounts(started_at=1.7e9, passes=3, pass_seconds=0.25, last_pass_at=1.7e9 + 30)
    counts.events.update(drained=1, boot=1)
    return AgentSnapshot(
        node="worker-3",
        status=Status.BAD,
        slurm_status=slurm_status or SlurmStatus(action="drain", drained=True),
        opened=[OpenFinding(finding=XID79, mode=Mode.DRAIN)],
        facts=facts,
        wanted=frozenset({"nvml", "kmsg", "mounts", "infiniband", "pcie"}),
        counts=counts,
        unwritten=2,
    )


def parsed(text: str) -> dict[str, Metric]:
    families = list(text_string_to_metric_families(text))
    found = {family.name: family for family in families}
    assert len(found) == len(families), "each family once"
    return found


def values(family: Metric, label: str) -> dict[str, float]:
    return {sample.labels[label]: sample.value for sample in family.samples}


def test_prometheus_reads_every_value_back() -> None:
    found = parsed(text_of(snapshot()))
    assert values(found["holdfast_node_status"], "status") == {
        "ok": 0,
        "suspect": 0,
        "bad": 1,
        "blind": 0,
    }
    (finding,) = found["holdfast_finding_open"].samples
    assert finding.labels == {
        "check": "gpu_xid",
        "code": "XID79",
        "subject": "GPU-3",
        "severity": "fatal",
        "mode": "drain",
    }
    up = values(found["holdfast_probe_up"], "probe")
    assert up == {"nvml": 1, "kmsg": 1, "mounts": 1, "infiniband": 1, "pcie": 0}
    assert values(found["holdfast_gpu_up"], "gpu")["3"] == 0
    assert values(found["holdfast_gpu_nvlinks_active"], "gpu")["5"] == 17
    assert values(found["holdfast_gpu_thermal_violation_seconds"], "gpu")["0"] == 2.5
    assert values(found["holdfast_gpu_hw_power_brake_slowdown_seconds"], "gpu")["0"] == 1.5
    assert values(found["holdfast_mount_up"], "path") == {'/mnt/odd "name"\n': 1, "/mnt/hung": 0}
    assert values(found["holdfast_events"], "event") == {"boot": 1, "drained": 1}
    assert found["holdfast_clock_skew_seconds"].samples[0].value == -0.25
    assert found["holdfast_history_unwritten_events"].samples[0].value == 2


def test_names_units_and_help_follow_prometheus_conventions() -> None:
    """prometheus.io/docs/practices/naming; the parser cuts ``_total`` off a counter's name."""
    text = text_of(snapshot())
    found = parsed(text)
    assert len(found) > 25
    for name, family in found.items():
        assert re.fullmatch(r"holdfast_[a-z]+(_[a-z]+)*", name), name
        assert family.documentation.endswith("."), name
        assert family.documentation[0].isupper() or family.documentation.startswith("NV"), name
        assert family.type in ("gauge", "counter"), name
        totals = [sample.name.endswith("_total") for sample in family.samples]
        assert all(totals) if family.type == "counter" else not any(totals), name
        assert not re.search(r"_(ms|us|ns|mib|kb|mb|gb|percent|c|s)(_|$)", name), "base units only"
        for sample in family.samples:
            assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", label) for label in sample.labels)
    assert text.endswith("\n")


def test_the_reference_page_lists_each_metric_with_its_meaning() -> None:
    page = (Path(__file__).parents[5] / "docs" / "reference" / "metrics.md").read_text()
    page = page.split("## Metrics of the bridge")[0]
    rows = re.findall(r"^\| `(holdfast_[a-z_]+)` \| (\w+) \| [^|]*\| (.*) \|$", page, re.MULTILINE)
    text = text_of(snapshot())
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE))
    types = dict(re.findall(r"^# TYPE (\S+) (.*)$", text, re.MULTILINE))
    assert {name: means for name, _, means in rows} == helps
    assert {name: kind for name, kind, _ in rows} == types


def test_what_was_not_read_has_no_sample() -> None:
    found = parsed(text_of(snapshot(NodeFacts(expected_gpus=8))))
    assert not [name for name in found if name.startswith(("holdfast_gpu", "holdfast_mount"))]
    assert "holdfast_probe_up" not in found
    unknown = parsed(text_of(snapshot(slurm_status=SlurmStatus(problem="no answer in 10 s"))))
    assert unknown["holdfast_slurm_reachable"].samples[0].value == 0
    assert "holdfast_node_drained" not in unknown


# What the parser itself, which splits by str.splitlines' rules, cannot take apart is left out.
_TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")) | st.just("\n"))


@given(
    st.dictionaries(st.sampled_from(["path", "subject"]), _TEXT, min_size=1),
    st.floats(allow_nan=False),
    _TEXT,
)
def test_no_text_breaks_the_page(labels: dict[str, str], value: float, words: str) -> None:
    text = render([gauge("one", words, [Sample(value, labels)]), counter("two_total", "T.", [])])
    (family,) = parsed(text).values()
    (sample,) = family.samples
    assert (sample.value, sample.labels) == (value, labels)


def test_a_name_that_is_no_utf8_still_goes_out() -> None:
    page = render([gauge("one", "One.", [Sample(1, {"path": "/mnt/\udcff"})])])
    assert parsed(page)["holdfast_one"].samples[0].labels["path"] == "/mnt/?"


# --- over HTTP ------------------------------------------------------------------------------------


@contextmanager
def serving(text: str, port: int = 0) -> Iterator[tuple[MetricsServer, int]]:
    """A server whose loop turns in a thread, as the agent's does."""
    if not port:
        with socket.socket() as one:
            one.bind((http_server.HOST, 0))
            port = one.getsockname()[1]
    server = MetricsServer(port, lambda: text)
    ends = threading.Event()

    def loop() -> None:
        while not ends.is_set():
            poll = select.poll()
            for fd, events in server.fds():
                poll.register(fd, events)
            poll.poll(10)
            began = time.monotonic()
            server.turn(time.monotonic())
            longest.append(time.monotonic() - began)

    longest: list[float] = []
    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield server, port
    finally:
        ends.set()
        thread.join()
        server.close()
    assert max(longest) < 10, "no client blocks the loop"


def get(port: int, path: str = "/metrics", method: str = "GET") -> tuple[int, str, bytes]:
    for _ in range(100):
        client = http.client.HTTPConnection(http_server.HOST, port, timeout=10)
        try:
            client.request(method, path)
            response = client.getresponse()
            return response.status, response.headers["Content-Type"], response.read()
        except ConnectionRefusedError:
            time.sleep(0.02)  # it has not begun to listen
        finally:
            client.close()
    raise AssertionError("nobody listens")


def test_a_scrape_gets_the_page() -> None:
    page = text_of(snapshot())
    with serving(page) as (_, port):
        status, kind, body = get(port)
        assert (status, body.decode()) == (200, page)
        assert kind == "text/plain; version=0.0.4; charset=utf-8"
        assert get(port, "/metrics?name=x")[0] == 200
        assert get(port, method="HEAD")[::2] == (200, b"")
        assert get(port, "/")[0] == 404
        assert get(port, method="POST")[0] == 405


def test_a_page_that_is_larger_than_any_buffer_arrives_whole() -> None:
    page = "# x\n" * 4_000_000
    with serving(page) as (_, port):
        assert get(port)[2] == page.encode()


def test_clients_that_send_nothing_or_too_much_are_disconnected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "_PATIENCE_S", 0.5)
    with serving("up 1\n") as (_, port):
        get(port)
        silent = [socket.create_connection((http_server.HOST, port)) for _ in range(MAX_CLIENTS)]
        assert get(port)[0] == 200, "served once the silent clients are disconnected"
        for one in silent:
            one.settimeout(10)
            assert one.recv(10) == b""
            one.close()
        with socket.create_connection((http_server.HOST, port)) as loud:
            loud.settimeout(10)
            loud.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 9000)
            assert loud.recv(100).startswith(b"HTTP/1.1 400")


def connected(port: int, user: int, count: int) -> subprocess.Popen[str]:
    """A process of another user that holds so many connections and says nothing."""
    code = (
        "import os, socket, sys\n"
        "port, user, count = map(int, sys.argv[1:])\n"
        "os.setuid(user)\n"
        "held = []\n"
        "for _ in range(count):\n"
        "    one = socket.socket(); one.connect(('127.0.0.1', port)); held.append(one)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    argv = [sys.executable, "-c", code, str(port), str(user), str(count)]
    pipe = subprocess.PIPE
    started = subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True)
    assert started.stdout is not None
    assert started.stdout.readline() == "held\n"
    return started


def test_the_owner_of_a_connection() -> None:
    with socket.create_server((http_server.HOST, 0)) as listener:
        with socket.create_connection(listener.getsockname()):
            accepted, _ = listener.accept()
            with accepted:
                assert tcp_owner.owner(accepted) == os.getuid()
        with socket.socket() as nobody:
            assert tcp_owner.owner(nobody) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="plays several users")
def test_no_user_can_block_the_connections_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_PATIENCE_S", 60.0)
    with serving("up 1\n") as (server, port):
        get(port)
        users = [connected(port, 2001, 4 * MAX_CLIENTS)]
        try:
            assert get(port)[0] == 200, "accepted after all of that user's"
            held = Counter(client.owner for client in list(server._clients))
            assert 0 < held[2001] <= MAX_OF_ONE_USER, "although all places are free"
            users.append(connected(port, 2002, 4 * MAX_CLIENTS))
            with socket.create_connection((http_server.HOST, port)) as slow:
                slow.sendall(b"GET /metrics HTTP/1.1\r\n")
                again = connected(port, 2003, 4 * MAX_CLIENTS)
                users.append(again)
                assert get(port)[0] == 200, "served while every user holds all allowed connections"
                held = Counter(client.owner for client in list(server._clients))
                assert held[2001] <= MAX_OF_ONE_USER
                assert sum(held.values()) <= MAX_CLIENTS
                slow.sendall(b"\r\n")
                slow.settimeout(10)
                assert slow.recv(100).startswith(b"HTTP/1.1 200"), (
                    "and one who is slow keeps his place"
                )
        finally:
            for one in users:
                one.communicate()


def test_a_flood_of_connections_is_accepted_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_PER_SECOND", 5)
    with socket.socket() as free:
        free.bind((http_server.HOST, 0))
        port = free.getsockname()[1]
    server = MetricsServer(port, str)
    server.turn(10.0)
    flood = [socket.create_connection((http_server.HOST, port)) for _ in range(8)]
    server.turn(10.1)
    server.turn(10.2)
    assert server._taken == 5
    assert [fd for fd, _ in server.fds() if fd == server._listener.fileno()] == []  # type: ignore[union-attr]
    assert server.next_at == 11.0
    server.turn(11.0)
    assert server._taken == 3
    assert server._listener.fileno() in [fd for fd, _ in server.fds()]  # type: ignore[union-attr]
    server.close()
    for one in flood:
        one.close()


@pytest.mark.parametrize(
    "request_",
    [b"", b"\r\n\r\n", b"\xff\xfe\r\n\r\n", b"GET /metrics\r\n\r\n", b"GET  HTTP/1.1\r\n\r\n" * 3],
)
def test_garbage_is_a_bad_request(request_: bytes) -> None:
    assert answer(request_, lambda: "").split(b" ")[1] in (b"400", b"404")


def test_a_port_in_use_is_one_log_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind((http_server.HOST, 0))
        other.listen()
        server = MetricsServer(other.getsockname()[1], str)
        for now in (0.0, 1.0, 61.0, 200.0):
            server.turn(now)
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert "metrics not served" in said[0]
    server.turn(300.0)
    assert len(list(server.fds())) == 1, "and binding is tried again"
    server.close()


def test_without_a_port_nothing_listens() -> None:
    server = MetricsServer(None, str)
    server.turn(0.0)
    assert list(server.fds()) == []


def listening(server: MetricsServer) -> str:
    server.turn(0.0)
    name: Callable[[], tuple[str, int]] = server._listener.getsockname  # type: ignore[union-attr]
    address = name()[0]
    server.close()
    return address


def test_only_loopback_is_served_unless_another_address_is_set() -> None:
    with socket.socket() as free:
        free.bind((http_server.HOST, 0))
        port = free.getsockname()[1]
    assert listening(MetricsServer(port, str)) == "127.0.0.1"
    assert listening(MetricsServer(port, str, "0.0.0.0")) == "0.0.0.0"  # noqa: S104


@pytest.mark.parametrize("host", ["", "localhost", "1.2.3", "1.2.3.256", "::1", "1.2.3.٤"])
def test_an_address_of_the_configuration_is_ipv4(host: str) -> None:
    with pytest.raises(ValueError, match=r"^metrics_host must be an IPv4 address, got"):
        AgentConfig(metrics_host=host)

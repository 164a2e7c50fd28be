"""The process: a new start with a new configuration, its servers, and its end."""

from __future__ import annotations

import signal
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.config.load import load_section
from holdfast.config.schema import ClusterConfig
from holdfast.errors import ConfigError, UsageError
from k8s_bridge import service
from k8s_bridge.config import BridgeConfig
from k8s_bridge.endpoints.passes import Pass
from k8s_bridge.kube.access import Right
from k8s_bridge.names import KUBERNETES, SLURM
from k8s_bridge.service import Parts, Service, Tools
from tests.unit.k8s_bridge.endpoints import otlp_receiver


class AllRights:
    allowed = True

    def may(self, right: Right) -> bool:
        return self.allowed


class Loop:
    """Runs ``work`` once; ``stopped``: it was asked to end."""

    def __init__(self, work: Callable[[Loop], None]):
        self._work = work
        self.stopped = False

    def run(self) -> None:
        self._work(self)

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "holdfast.yaml"

    def compose(path: Path) -> Parts:
        policy = load_section(path, "bridge", BridgeConfig)
        return Parts(ClusterConfig(), policy, None, AllRights())  # type: ignore[arg-type]

    monkeypatch.setattr(service, "compose", compose)
    monkeypatch.setattr("k8s_bridge.reload.LOOK_S", 3600.0)
    return path


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as found:
        return int(found.getsockname()[1])


def status(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_new_configuration_starts_the_loop_again_and_moves_the_servers(file: Path) -> None:
    first, second, page = free_port(), free_port(), free_port()
    seen: list[float] = []
    answers: dict[str, int] = {}

    def one(loop: Loop) -> None:
        answers["healthz"] = status(first, "/healthz")
        answers["readyz"] = status(first, "/readyz")
        file.write_text("bridge: {poll_s: 0}\n")
        assert running._watch is not None
        assert (running._watch.look(), loop.stopped) == (False, False), "it cannot be used"
        file.write_text(f"bridge: {{poll_s: 7, metrics_port: {second}, page_port: {page}}}\n")
        assert running._watch.look()
        assert loop.stopped

    def two(_: Loop) -> None:
        answers["second"] = status(second, "/metrics")
        answers["page"] = status(page, "/")
        answers["page of the metrics"] = status(second, "/")
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(f"http://127.0.0.1:{first}/healthz", timeout=20)
        running.stop()

    work = iter((one, two))

    def make(parts: Parts, tools: Tools) -> Loop:
        seen.append(parts.policy.poll_s)
        if len(seen) == 2:
            tools.health.seen(SLURM)
            tools.health.seen(KUBERNETES)
        return Loop(next(work))

    file.write_text(f"bridge: {{poll_s: 3, metrics_port: {first}}}\n")
    running = Service(file, make)
    assert running.run() == 0
    assert seen == [3, 7]
    assert answers == {
        "healthz": 200,
        "readyz": 503,
        "second": 200,
        "page": 200,
        "page of the metrics": 404,
    }


def test_sigterm_ends_it_and_sighup_looks_at_the_file(file: Path) -> None:
    looked: list[bool] = []

    def work(loop: Loop) -> None:
        assert running._watch is not None
        running._watch.ask = lambda: looked.append(True)  # type: ignore[method-assign]
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)
        assert loop.stopped

    running = Service(file, lambda *_: Loop(work))
    assert running.run() == 0
    assert looked == [True]


def test_missing_rights_and_a_wrong_configuration_stop_only_the_first_start(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(parts: Parts, tools: Tools) -> Loop:
        raise AssertionError("it must not start")

    monkeypatch.setattr(AllRights, "allowed", False)
    with pytest.raises(UsageError, match=r"may not get nodes, .*holdfast render rbac"):
        Service(file, never).run()
    file.write_text("bridge: {page_port: 9646, metrics_port: 9646}\n")
    with pytest.raises(ConfigError, match=r"holdfast\.yaml:1: bridge\.page_port: must differ"):
        Service(file, never).run()


def test_a_new_namespace_of_workloads_waits_for_its_rights(
    file: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    missing = {"team-a"}
    monkeypatch.setattr(AllRights, "may", lambda _, right: right.namespace not in missing)
    monkeypatch.setattr("k8s_bridge.reload.AGAIN_S", 0.0)
    used: list[tuple[str, ...]] = []

    def one(loop: Loop) -> None:
        file.write_text("bridge: {workloads: {namespaces: [team-a]}}\n")
        assert running._watch is not None
        assert (running._watch.look(), running._watch.look(), loop.stopped) == (False,) * 3
        missing.clear()  # the admin applies the Role
        assert running._watch.look()
        assert loop.stopped

    def two(_: Loop) -> None:
        running.stop()

    work = iter((one, two))

    def make(parts: Parts, tools: Tools) -> Loop:
        used.append(parts.policy.workloads.namespaces)
        return Loop(next(work))

    file.write_text("{}")
    running = Service(file, make)
    assert running.run() == 0
    assert used == [(), ("team-a",)]
    refused = [line for line in capfd.readouterr().err.splitlines() if "not reloaded" in line]
    assert len(refused) == 1, "one line for all rights, and once"
    assert "may not list pods in team-a, create pods/eviction in team-a" in refused[0]
    assert "holdfast render workloads-rbac --set namespaces=team-a" in refused[0]


@pytest.mark.parametrize(("uid", "warned"), [(0, False), (654_321, True)])
def test_an_image_that_does_not_know_the_bridges_user_is_named(
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    uid: int,
    warned: bool,
) -> None:
    """scontrol would print the number, and the bridge not recognise its own drains."""
    file.write_text("{}")
    monkeypatch.setattr("os.geteuid", lambda: uid)
    assert Service(file, lambda _parts, _tools: Loop(lambda _: None)).run() == 0
    assert ("add the user slurm_user with this uid" in capsys.readouterr().err) is warned


def test_traces_go_to_the_receiver_of_the_configuration(file: Path) -> None:
    def make(parts: Parts, tools: Tools) -> Loop:
        traced = Pass(1, 2, 3, planned=1, written=1)
        return Loop(lambda _: tools.trace(traced))

    with otlp_receiver.running() as receiver:
        file.write_text(f"bridge: {{otlp_endpoint: '{receiver.url}'}}\n")
        assert Service(file, make).run() == 0
        assert {span.name for span in receiver.spans()} == {"pass", "look", "write"}
        assert "holdfast_bridge_passes" in receiver.metrics()


def test_without_the_packages_of_opentelemetry_it_does_not_start(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "k8s_bridge.endpoints.otlp", None)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    with pytest.raises(UsageError, match="OTEL_EXPORTER_OTLP_ENDPOINT asks for OpenTelemetry"):
        Service(file, lambda *_: Loop(lambda _: None)).run()

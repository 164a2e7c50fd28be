"""Traces and metrics over OTLP, as a real receiver on loopback decodes them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from holdfast.errors import UsageError
from k8s_bridge.config import BridgeConfig
from k8s_bridge.endpoints import telemetry
from k8s_bridge.endpoints.metrics import BridgeMetrics
from k8s_bridge.endpoints.passes import Pass
from k8s_bridge.endpoints.telemetry import asked_by
from k8s_bridge.model.changes import UpdateStatus
from tests.unit.k8s_bridge.endpoints.otlp_receiver import Receiver, running

S = 1_000_000_000


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with running() as server:
        yield server


def send(endpoint: str, metrics: BridgeMetrics, *passes: Pass) -> None:
    sent = telemetry.start(endpoint, {}, "training", metrics)
    assert sent is not None
    for one in passes:
        sent.passed(one)
    sent.stop()


def test_a_pass_that_writes_is_a_trace_of_its_look_and_its_writes(receiver: Receiver) -> None:
    quiet, busy = Pass(S, 2 * S, 3 * S), Pass(4 * S, 5 * S, 7 * S, planned=9, written=8)
    send(receiver.url, BridgeMetrics(), quiet, busy)
    spans = {span.name: span for span in receiver.spans()}
    assert spans.keys() == {"pass", "look", "write"}, "the quiet one is none"
    whole = spans["pass"]
    assert (whole.start_time_unix_nano, whole.end_time_unix_nano) == (4 * S, 7 * S)
    numbers = {each.key: each.value.int_value for each in whole.attributes}
    assert numbers == {"holdfast.planned": 9, "holdfast.written": 8}
    assert spans["look"].parent_span_id == spans["write"].parent_span_id == whole.span_id
    assert spans["look"].end_time_unix_nano == spans["write"].start_time_unix_nano == 5 * S


def test_a_pass_that_an_error_ended_is_marked(receiver: Receiver) -> None:
    send(receiver.url, BridgeMetrics(), Pass(S, S, 2 * S, error="KubeUnavailable"))
    (failed,) = (span for span in receiver.spans() if span.name == "pass")
    assert (failed.status.code, failed.status.message) == (2, "KubeUnavailable")


def test_the_metrics_are_those_of_prometheus(receiver: Receiver) -> None:
    metrics = BridgeMetrics()
    metrics.wrote(UpdateStatus, 3)
    metrics.seen("slurm", 40)
    send(receiver.url, metrics)
    found = receiver.metrics()
    writes = found["holdfast_bridge_writes"]
    assert writes.sum.is_monotonic
    values = {p.attributes[0].value.string_value: p.as_double for p in writes.sum.data_points}
    assert values["UpdateStatus"] == 3
    nodes = found["holdfast_bridge_nodes"].gauge.data_points
    assert [p.as_double for p in nodes if p.attributes[0].value.string_value == "slurm"] == [40]
    assert {name for name, _, _ in metrics.families()} == found.keys()
    (resource,) = (one.resource_metrics[0].resource for _, one in receiver.got)
    about = {each.key: each.value.string_value for each in resource.attributes}
    assert (about["service.name"], about["holdfast.cluster"]) == ("holdfast-bridge", "training")


def test_a_receiver_that_refuses_is_in_the_log_and_stops_nothing(
    receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    receiver.status = 400
    send(receiver.url, BridgeMetrics(), Pass(S, S, 2 * S, written=1))
    lines = [line for line in capsys.readouterr().err.splitlines() if "OpenTelemetry" in line]
    assert lines
    assert all(" warning bridge: OpenTelemetry why=" in line for line in lines)


@pytest.mark.parametrize(
    ("endpoint", "environment", "asked"),
    [
        ("", {}, ""),
        ("http://a:4318", {}, "bridge.otlp_endpoint"),
        ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a"}, "OTEL_EXPORTER_OTLP_ENDPOINT"),
        ("", {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "x"}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
        ("http://a:4318", {"OTEL_SDK_DISABLED": "TRUE"}, ""),
        ("", {"OTEL_SERVICE_NAME": "x"}, ""),
    ],
)
def test_who_asks_for_it(endpoint: str, environment: dict[str, str], asked: str) -> None:
    assert asked_by(endpoint, environment) == asked


def test_without_its_packages_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "k8s_bridge.endpoints.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    telemetry.require("", {})
    with pytest.raises(UsageError) as error:
        telemetry.require("http://a:4318", {})
    assert str(error.value) == (
        "bridge.otlp_endpoint asks for OpenTelemetry, and its packages are not installed; "
        "pip install 'holdfast[otel]', or remove that setting"
    )


@pytest.mark.parametrize("wrong", ["collector:4318", "grpc://a:4317", "http://a b"])
def test_another_address_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="otlp_endpoint must be http"):
        BridgeConfig(otlp_endpoint=wrong)

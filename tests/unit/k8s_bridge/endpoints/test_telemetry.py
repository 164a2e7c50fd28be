"""Traces and metrics over OTLP, as a real receiver on loopback decodes them."""

from __future__ import annotations

import gzip
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from holdfast.errors import UsageError
from k8s_bridge.config import BridgeConfig
from k8s_bridge.endpoints import telemetry
from k8s_bridge.endpoints.metrics import BridgeMetrics
from k8s_bridge.endpoints.passes import Pass
from k8s_bridge.endpoints.telemetry import asked_by
from k8s_bridge.model.changes import UpdateStatus

S = 1_000_000_000
FORMS: dict[str, Any] = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
}


class Receiver(ThreadingHTTPServer):
    """Keeps what it receives, decoded. ``status``: what it answers."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.got: list[tuple[str, Any]] = []
        self.status = 200
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def spans(self) -> list[Any]:
        traces = [one for path, one in self.got if path == "/v1/traces"]
        return [s for t in traces for r in t.resource_spans for c in r.scope_spans for s in c.spans]

    def metrics(self) -> dict[str, Any]:
        sent = [one for path, one in self.got if path == "/v1/metrics"]
        scopes = [c for one in sent for r in one.resource_metrics for c in r.scope_metrics]
        return {metric.name: metric for scope in scopes for metric in scope.metrics}


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        assert self.headers["Content-Type"] == "application/x-protobuf"
        message = FORMS[self.path]()
        message.ParseFromString(body)
        self.server.got.append((self.path, message))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


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

"""A receiver of OTLP over HTTP, on loopback."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

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


@contextmanager
def running() -> Iterator[Receiver]:
    """A receiver that answers."""
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()

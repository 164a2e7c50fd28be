"""Traces and metrics over OTLP. The only module that imports opentelemetry.

Spans have numbers only: no reason, comment or other text of users leaves the bridge here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode, set_span_in_context

from holdfast.adapters.log import Log
from holdfast.adapters.log_limit import LimitedLog
from holdfast.text.printable import folded
from holdfast.version import VERSION
from k8s_bridge.endpoints.metrics import BridgeMetrics, Sample
from k8s_bridge.endpoints.passes import Pass

SCOPE = "holdfast.bridge"
_NAME = "OTEL_SERVICE_NAME"
_SHUTDOWN_MS = 5000

log = LimitedLog(Log("bridge"))


class Otlp:
    """Sends until ``stop``. ``endpoint``: the receiver's address; empty: that of the standard variables."""

    def __init__(
        self, endpoint: str, environment: Mapping[str, str], cluster: str, metrics: BridgeMetrics
    ):
        _log_own_way()
        names = {"service.version": VERSION, "holdfast.cluster": cluster}
        if _NAME not in environment:
            names["service.name"] = "holdfast-bridge"
        resource = Resource.create(names)
        base = endpoint.rstrip("/")
        self._traces = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._traces.add_span_processor(
            BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{base}/v1/traces" if base else None))
        )
        exporter = OTLPMetricExporter(endpoint=f"{base}/v1/metrics" if base else None)
        reader = PeriodicExportingMetricReader(exporter)
        self._metrics = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        self._tracer = self._traces.get_tracer(SCOPE, VERSION)
        self._observe(metrics)

    def passed(self, one: Pass) -> None:
        """A pass that changed something, or that an error ended. The others are in the metrics."""
        if not one.written and not one.error:
            return
        numbers = {"holdfast.planned": one.planned, "holdfast.written": one.written}
        span = self._tracer.start_span("pass", start_time=one.begun_ns, attributes=numbers)
        inside = set_span_in_context(span)
        for name, begin, end in (
            ("look", one.begun_ns, one.looked_ns),
            ("write", one.looked_ns, one.ended_ns),
        ):
            self._tracer.start_span(name, context=inside, start_time=begin).end(end)
        if one.error:
            span.set_status(Status(StatusCode.ERROR, one.error))
        span.end(one.ended_ns)

    def stop(self) -> None:
        """Send what is left, for some seconds at most."""
        self._metrics.shutdown(timeout_millis=_SHUTDOWN_MS)
        self._traces.force_flush(_SHUTDOWN_MS)
        self._traces.shutdown()

    def _observe(self, metrics: BridgeMetrics) -> None:
        meter = self._metrics.get_meter(SCOPE, VERSION)
        for name, kind, text in metrics.families():
            make = (
                meter.create_observable_counter
                if kind == "counter"
                else meter.create_observable_gauge
            )
            make(name, callbacks=[_callback(metrics, name)], description=text)


def _callback(
    metrics: BridgeMetrics, name: str
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def read(_: CallbackOptions) -> Iterable[Observation]:
        found: Iterable[Sample] = metrics.samples(name)
        return [Observation(value, dict(labels)) for labels, value in found]

    return read


class _ToLog(logging.Handler):
    """What the exporters say, in the bridge's own log: a receiver that is away is logged within limits."""

    def emit(self, record: logging.LogRecord) -> None:
        log.warning("OpenTelemetry", why=folded(record.getMessage())[:300])


def _log_own_way() -> None:
    logger = logging.getLogger("opentelemetry")
    if not any(isinstance(each, _ToLog) for each in logger.handlers):
        logger.addHandler(_ToLog(logging.WARNING))
    logger.propagate = False

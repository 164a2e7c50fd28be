"""OpenTelemetry, where it is asked for: each pass that writes as a trace, and the bridge's metrics, over OTLP.

Its packages are imported only then (``otlp``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from holdfast.errors import UsageError
from k8s_bridge.endpoints.passes import Pass

if TYPE_CHECKING:
    from k8s_bridge.endpoints.metrics import BridgeMetrics

_ENDPOINTS = tuple(f"OTEL_EXPORTER_OTLP_{signal}ENDPOINT" for signal in ("", "TRACES_", "METRICS_"))
"""The standard variables that name where to send to."""
_MISSING = (
    "{asked} asks for OpenTelemetry, and its packages are not installed; pip install 'holdfast[otel]', "
    "or remove that setting"
)


class Telemetry(Protocol):
    """Where passes are sent to. Nothing waits for the receiver."""

    def passed(self, one: Pass) -> None: ...
    def stop(self) -> None: ...


def asked_by(endpoint: str, environment: Mapping[str, str]) -> str:
    """The setting that asks for it; empty: none. ``endpoint``: ``bridge.otlp_endpoint``."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ""
    if endpoint:
        return "bridge.otlp_endpoint"
    return next((name for name in _ENDPOINTS if environment.get(name)), "")


def require(endpoint: str, environment: Mapping[str, str]) -> None:
    """Raises ``UsageError``, with one line, if it is asked for and cannot be imported."""
    asked = asked_by(endpoint, environment)
    if not asked:
        return
    try:
        from k8s_bridge.endpoints.otlp import Otlp  # noqa: F401, PLC0415 - 0.5 s and 25 MiB
    except ImportError:
        raise UsageError(_MISSING.format(asked=asked)) from None


def start(
    endpoint: str, environment: Mapping[str, str], cluster: str, metrics: BridgeMetrics
) -> Telemetry | None:
    """``None`` where nothing asks for it."""
    if not asked_by(endpoint, environment):
        return None
    from k8s_bridge.endpoints.otlp import Otlp  # noqa: PLC0415 - as above

    return Otlp(endpoint, environment, cluster, metrics)

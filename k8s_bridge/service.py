"""The bridge as a process: start-up checks, signals, HTTP, and a new start when the configuration changes.

A configuration that changes is checked first. Then the loop ends after its present call and starts again
with the new settings, in the same process: the loop is stateless, and this is the path that every start takes.
"""

from __future__ import annotations

import os
import pwd
import signal
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from holdfast.adapters.log import Log, use_json
from holdfast.config.load import load_section
from holdfast.config.schema import ClusterConfig, SlurmAdapter, load_cluster
from holdfast.config.sections import schema_of
from holdfast.errors import ConfigError, UsageError
from holdfast.policy.budget import BudgetLimits
from holdfast.slurm.adapter import open_slurm
from holdfast.slurm.cli import SlurmCli
from k8s_bridge.config import BridgeConfig, LogFormat
from k8s_bridge.endpoints import http_server, telemetry
from k8s_bridge.endpoints.health import Health
from k8s_bridge.endpoints.http_server import Request, Response, Route
from k8s_bridge.endpoints.passes import Pass
from k8s_bridge.endpoints.telemetry import Telemetry
from k8s_bridge.kube import access, kubeconfig
from k8s_bridge.page.board import Board
from k8s_bridge.page.sections import Sections, Shown
from k8s_bridge.page.sources import Sources
from k8s_bridge.reload import ConfigWatch
from k8s_bridge.worker_pods import protection
from k8s_bridge.workloads import rights

if TYPE_CHECKING:
    from k8s_bridge.endpoints.metrics import BridgeMetrics
    from k8s_bridge.kube.client import KubeApi

log = Log("bridge")


class Parts(NamedTuple):
    """What one start of the loop is made of."""

    cluster: ClusterConfig
    policy: BridgeConfig
    slurm: SlurmCli
    kube: KubeApi


class Loop(Protocol):
    """The loop (``k8s_bridge.loop.Bridge``)."""

    def run(self) -> None:
        """Run until ``stop``."""
        ...

    def stop(self) -> None: ...


class Tools(NamedTuple):
    """What the loop reports to."""

    metrics: BridgeMetrics
    health: Health
    board: Board
    trace: Callable[[Pass], None] = lambda _: None


Make = Callable[[Parts, Tools], Loop]

NO_NAME = (
    "this uid has no name here, so Slurm's commands show the bridge's own drains by number and the bridge "
    "does not end them; add the user slurm_user with this uid to /etc/passwd of the image"
)


def compose(path: Path) -> Parts:
    """The configuration, and access to both sides. Raises ``HoldfastError`` for what cannot be used."""
    policy = load_section(path, "bridge", BridgeConfig)
    kubeconfig.require(policy.kubeconfig)  # before the import below
    from k8s_bridge.kube.client import KubeApi  # noqa: PLC0415 - 0.5 s

    cluster = load_cluster(path)
    slurm = open_slurm(cluster.slurm, policy.slurm_token_file)
    return Parts(cluster, policy, slurm, KubeApi(policy))


def _has_name(uid: int) -> bool:
    try:
        return bool(pwd.getpwuid(uid).pw_name)
    except KeyError:
        return False


def stalled_after_s(cluster: ClusterConfig, policy: BridgeConfig) -> float:
    """The longest time without progress of a loop that works: one step makes a few calls, each bounded."""
    return 60 + 12 * max(cluster.slurm.timeout_s, policy.timeout_s)


class Service:
    """One process. ``make`` builds the loop."""

    def __init__(self, path: Path, make: Make):
        self._path, self._make = path, make
        self._stopping = False
        self._loop: Loop | None = None
        self._watch: ConfigWatch | None = None
        self._next: Parts | None = None
        self._servers: dict[str, tuple[object, http_server.Server | None]] = {}

    def run(self) -> int:
        """Until a signal. Raises ``HoldfastError`` if the first start is not possible."""
        self._prepare_signals()
        metrics = _metrics()
        board = Board()
        parts: Parts | None = self._begin()
        while parts is not None:
            sent = telemetry.start(
                parts.policy.otlp_endpoint, os.environ, parts.cluster.cluster, metrics
            )
            self._one_start(parts, metrics, board, sent)
            if sent is not None:
                sent.stop()
            parts = self._next
        for _, server in self._servers.values():
            if server is not None:
                server.stop()
        log.info("stopped")
        return 0

    def stop(self) -> None:
        """End after the present call; each call is bounded in time."""
        self._stopping = True
        if self._loop is not None:
            self._loop.stop()

    def reload(self) -> None:
        """Look at the configuration now."""
        if self._watch is not None:
            self._watch.ask()

    def _prepare_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())
        signal.signal(signal.SIGHUP, lambda *_: self.reload())

    def _begin(self) -> Parts:
        """Raises ``HoldfastError`` for what cannot be used, or without the rights for it."""
        parts = compose(self._path)
        telemetry.require(parts.policy.otlp_endpoint, os.environ)
        where = kubeconfig.path_of(parts.policy.kubeconfig) or "the pod's service account"
        access.require(parts.kube, parts.policy, str(where))
        rights.require(parts.kube, parts.policy, str(where))
        protection.require(parts.kube, parts.policy, str(where))
        return parts

    def _one_start(
        self, parts: Parts, metrics: BridgeMetrics, board: Board, sent: Telemetry | None
    ) -> None:
        policy = parts.policy
        use_json(policy.log_format is LogFormat.JSON)
        health = Health(stalled_after_s(parts.cluster, policy))
        tools = Tools(metrics, health, board)
        if sent is not None:
            tools = tools._replace(trace=sent.passed)
        self._serve(parts, tools)
        loop = self._make(parts, tools)
        self._next = None
        self._loop = loop
        self._watch = ConfigWatch(
            self._path,
            check=self._checked,
            changed=lambda: self._reloaded(loop, metrics, board),
            invalid=metrics.invalid,
        )
        self._watch.start()
        log.info("started", poll_s=policy.poll_s, cordon=policy.cordon, taint=policy.taint)
        if parts.cluster.slurm.adapter is not SlurmAdapter.REST and not _has_name(os.geteuid()):
            log.warning(NO_NAME, uid=os.geteuid(), slurm_user=policy.slurm_user)
        if not self._stopping:
            loop.run()
        self._watch.stop()
        if self._stopping:
            self._next = None

    def _checked(self) -> None:
        self._next = self._begin()

    def _reloaded(self, loop: Loop, metrics: BridgeMetrics, board: Board) -> None:
        log.info("the configuration changed: starting again with it", file=self._path)
        board.note("configuration reloaded", datetime.now(timezone.utc))
        metrics.reloaded()
        loop.stop()

    def _serve(self, parts: Parts, tools: Tools) -> None:
        policy = parts.policy
        self._put("metrics", policy.metrics_host, policy.metrics_port, _probes(tools))
        if policy.page_port is None:
            self._put("page", "", None, {})
            return
        from k8s_bridge.page import web  # noqa: PLC0415 - jinja2: only where the page is served

        sections = Sections(
            Shown(tools.board, Sources(parts.slurm), tools.health),
            policy,
            cluster=parts.cluster.cluster,
            limits=_limits(self._path),
        )
        routes = web.routes(sections, cluster=parts.cluster.cluster)
        names = (policy.page_host, *policy.page_names)  # besides addresses and localhost
        self._put("page", policy.page_host, policy.page_port, routes, names)

    def _put(
        self,
        name: str,
        host: str,
        port: int | None,
        routes: Mapping[str, Route],
        names: tuple[str, ...] | None = None,
    ) -> None:
        """Serve there, with the server of the last start where host, port and names are the same."""
        place = (host, port, names)
        known = self._servers.get(name)
        if known is not None and known[0] == place:
            if known[1] is not None:
                known[1].routes = routes
                return
        elif known is not None and known[1] is not None:
            known[1].stop()
        server = None if port is None else http_server.serve(routes, host, port, names=names)
        self._servers[name] = (place, server)


def _probes(tools: Tools) -> Mapping[str, Route]:
    def metrics(request: Request) -> Response:
        kind, body = tools.metrics.exposition(request.accept)
        return Response(body=body, kind=kind)

    def probe(name: str) -> Route:
        def answer(_: Request) -> Response:
            ok, text = getattr(tools.health, name)()
            return Response(body=text.encode(), status=200 if ok else 503)

        return answer

    return {"/metrics": metrics, "/healthz": probe("healthz"), "/readyz": probe("readyz")}


def _metrics() -> BridgeMetrics:
    try:
        from k8s_bridge.endpoints.metrics import BridgeMetrics  # noqa: PLC0415 - 0.1 s, not needed for --plan
    except ImportError:
        raise UsageError(
            "the bridge needs the package prometheus_client; pip install 'holdfast[bridge]'"
        ) from None
    return BridgeMetrics()


def _limits(path: Path) -> BudgetLimits | None:
    """The budget's limits; None where the node part is not installed, or its section is invalid."""
    try:
        limits: BudgetLimits = load_section(path, "node", schema_of("node")).budget
    except (ImportError, ConfigError):
        return None
    return limits

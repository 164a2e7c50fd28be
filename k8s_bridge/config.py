"""Section ``bridge`` of the configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from holdfast.config.bounds import within
from holdfast.text.wording import did_you_mean
from holdfast.vocabulary import NodeState
from k8s_bridge.rules.rule import RuleMode
from k8s_bridge.rules.settings import BridgeBudget, RuleSettings
from k8s_bridge.state_table import ISOLATABLE, Isolation

SWITCH = "bridge"
"""``/etc/holdfast/off/bridge`` (or ``off/all``): the bridge reports only and takes no action."""
_URL = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[\w./-]*)?")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Join(str, Enum):
    """How the Kubernetes Node of a Slurm node is found."""

    INSTANCE_ID = "instance_id"
    """Slurm's InstanceId is the Node's name (Soperator)."""
    TABLE = "table"
    """From the mapping ``nodes``."""


class LogFormat(str, Enum):
    """The form of the log's lines."""

    TEXT = "text"
    """Time, level, event, then ``key=value``."""
    JSON = "json"
    """One JSON object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSettings:
    """Workloads of Kubernetes whose owners ask for it with a label: when one pod is lost to a node fault, all
    pods of the workload are restarted together ([kubernetes-jobs.md](../howto/kubernetes-jobs.md)).
    """

    namespaces: tuple[str, ...] = ()
    """The namespaces in which this is done. Empty: nowhere. `holdfast render workloads-rbac` has the rights."""
    poll_s: float = 10.0
    """The time between two looks at the workloads and their pods."""
    max_restarts: int = 3
    """Restarts of one workload within `window_s`."""
    window_s: float = 86400.0
    """The time within which restarts count."""
    backoff_s: float = 60.0
    """The shortest time from the first restart of a workload to the second; it doubles with each, up to one
    hour.
    """
    not_ready_s: float = 60.0
    """How long a Node has to be NotReady before the pods on it count as lost."""

    def __post_init__(self) -> None:
        within(self, poll_s=(1, 300), max_restarts=(1, 20), window_s=(60, 604800))
        within(self, backoff_s=(0, 3600), not_ready_s=(0, 3600))
        wrong = next((name for name in self.namespaces if not _NAMESPACE.fullmatch(name)), None)
        if wrong is not None:
            raise ValueError(f"namespaces must be names of namespaces, got {wrong!r}")
        twice = _first_twice(self.namespaces)
        if twice:
            raise ValueError(f"namespaces must name each once, got {twice!r} twice")


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeConfig:
    """What the bridge does, and how often it reads Slurm."""

    poll_s: float = 2.0
    """The longest time between two reads of Slurm. A change in Kubernetes triggers one at once, and a request to
    change a Slurm node, such as a drain, within 0.7 s.
    """
    cordon: bool = True
    """Cordon the Node of a Slurm node that Holdfast drained."""
    taint: bool = True
    """Taint it ``holdfast.dev/drained=CODE:NoSchedule`` too."""
    isolate: Mapping[str, Isolation] = field(default_factory=dict)
    """State of Slurm → `taint`, `cordon` (which taints too) or `none`, for the Node of a Slurm node in that
    state, e.g. `{DOWN: taint}`. The states: [node-states.md](node-states.md).
    """
    show_planned: bool = False
    """Show PLANNED as the reason of HoldfastSlurmBusy. The scheduler then causes writes at each of its passes."""
    drain_on_cordon: bool = True
    """Drain a node in Slurm when it is cordoned in Kubernetes, and undrain it on uncordon."""
    rules: tuple[RuleSettings, ...] = ()
    """Signals of Kubernetes for which nodes are drained in Slurm. Built-in rules that are not in the list are
    in mode `observe`.
    """
    budget: BridgeBudget = field(default_factory=BridgeBudget)
    workloads: WorkloadSettings = field(default_factory=WorkloadSettings)
    worker_pods_namespace: str = ""
    """Namespace of Slurm's worker pods, whose names are those of the Slurm nodes: those of drained nodes without a
    job get the label `holdfast.dev/evictable`, the others cannot be evicted
    ([bridge.md](../howto/bridge.md#kubectl-drain-waits-for-the-job)). Empty: this is not done.
    """
    events: bool = True
    """Create Events on the Node for transitions."""
    join: Join = Join.INSTANCE_ID
    nodes: Mapping[str, str] = field(default_factory=dict)
    """Slurm node name → Kubernetes Node name, for ``join: table``."""
    node_selector: str = ""
    """Label selector: the bridge ignores all other Nodes. Empty: all Nodes."""
    kubeconfig: str = ""
    """Empty: ``KUBECONFIG``, else /etc/holdfast/kubeconfig if it exists, else the pod's service account."""
    slurm_user: str = "holdfast"
    """The Slurm user of the bridge: with the drain's time, the proof that a drain is its own."""
    slurm_token_file: str = ""
    """File with a JSON Web Token of that user (``scontrol token``), read for each command. Empty: the
    cluster's AuthType, which needs its key or munge's socket.
    """
    timeout_s: float = 10.0
    """Limit for one call to the API server."""
    unreadable_polls: int = 3
    """Failed reads of Slurm in a row after which the conditions become Unknown."""
    connections: int = 8
    """Requests to the API server at once."""
    full_read_s: float = 60.0
    """The longest time between two reads of all that Slurm knows of its nodes. The reads in between have
    states, reasons and comments only, and a node that was away is read whole when it returns.
    """
    hold_unknown_s: float = 30.0
    """How long slurmctld has to miss a node before the conditions become Unknown: a restarted slurmctld
    does not know its nodes for some seconds.
    """
    hold_free_s: float = 60.0
    """How long a node has to be without a job before that is written: while jobs follow one another, the
    node stays busy. Its first job, and the end of the last one of a draining node, are written at once.
    """
    metrics_port: int | None = None
    """Serve the metrics over HTTP on this port, at /metrics, and /healthz and /readyz for probes. null:
    they are not served.
    """
    metrics_host: str = "127.0.0.1"
    """The address to serve them on. In a pod: 0.0.0.0, because Prometheus asks the pod's address."""
    page_port: int | None = None
    """Serve the status page over HTTP on this port, at /. null: it is not served."""
    page_host: str = "127.0.0.1"
    """The address to serve it on. The page has no password: with another address than the default, anyone who
    reaches the port can read it.
    """
    page_names: tuple[str, ...] = ()
    """Host names under which the page may be asked for, besides localhost and IP addresses: those of a proxy."""
    otlp_endpoint: str = ""
    """Send traces and metrics to this OpenTelemetry receiver over OTLP/HTTP, such as
    `http://collector:4318`. Empty: where `OTEL_EXPORTER_OTLP_ENDPOINT` says, else nowhere. Needs
    `holdfast[otel]`.
    """
    log_format: LogFormat = LogFormat.TEXT

    def __post_init__(self) -> None:
        within(self, poll_s=(0.1, 300), timeout_s=(0.5, 120))
        within(self, unreadable_polls=(1, 1000), connections=(1, 64), full_read_s=(1, 3600))
        within(self, hold_unknown_s=(0, 3600), hold_free_s=(0, 3600))
        _check_ports(self)
        if self.slurm_token_file and not Path(self.slurm_token_file).is_absolute():
            raise ValueError(f"slurm_token_file must be absolute, got {self.slurm_token_file!r}")
        _check_states(self.isolate)
        rule = _first_twice(one.use or one.name for one in self.rules)
        if rule:
            raise ValueError(f"rules must name each rule once, got {rule!r} twice")
        if self.worker_pods_namespace and not _NAMESPACE.fullmatch(self.worker_pods_namespace):
            raise ValueError(
                f"worker_pods_namespace must be the name of a namespace, got {self.worker_pods_namespace!r}"
            )
        _check_pod_rules(self)
        if self.otlp_endpoint and not _URL.fullmatch(self.otlp_endpoint):
            raise ValueError(
                f"otlp_endpoint must be http://HOST:PORT or https://HOST:PORT, got {self.otlp_endpoint!r}"
            )
        if not self.slurm_user:
            raise ValueError("slurm_user must not be empty")
        if self.join is Join.TABLE and not self.nodes:
            raise ValueError(
                "join is 'table', so nodes must map at least one Slurm node to a Kubernetes Node"
            )
        if self.join is not Join.TABLE and self.nodes:
            raise ValueError("nodes is read only with join: table; set that, or remove nodes")
        twice = _first_twice(self.nodes.values())
        if twice:
            raise ValueError(f"nodes names the Kubernetes Node {twice!r} twice")


def _check_pod_rules(config: BridgeConfig) -> None:
    if config.worker_pods_namespace:
        return
    for one in config.rules:
        if one.rule.pod and one.rule.mode is RuleMode.DRAIN:
            raise ValueError(
                f"rules: {one.use} in mode drain needs worker_pods_namespace, the namespace of the worker pods"
            )


def _check_ports(config: BridgeConfig) -> None:
    for name in ("metrics", "page"):
        if getattr(config, f"{name}_port") is not None:
            within(config, **{f"{name}_port": (1, 65535)})
        if not getattr(config, f"{name}_host"):
            raise ValueError(f"{name}_host must not be empty")
    if config.page_port is not None and config.page_port == config.metrics_port:
        raise ValueError("page_port must differ from metrics_port")


def _check_states(isolate: Mapping[str, Isolation]) -> None:
    for state in isolate:
        if state not in ISOLATABLE:
            known = f"{state!r} is in service" if state in NodeState.__members__ else repr(state)
            raise ValueError(
                f"isolate must name states that keep a node out of service ({', '.join(ISOLATABLE)}), "
                f"got {known}{did_you_mean(state, ISOLATABLE)}"
            )


def _first_twice(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None

"""The configuration sections of the node side: ``node``, ``agent`` and ``checks``.

The docstring after a field gives its meaning, its unit, and the reason for its default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

from holdfast.config.bounds import is_ipv4, within
from holdfast.policy.return_test import ReturnTestMode
from holdfast.vocabulary import Mode

L = TypeVar("L")


class ReasonStyle(str, Enum):
    """How a drain reason begins."""

    HOLDFAST = "holdfast"
    NODE_PROBLEM = "node_problem"
    """The reason begins with ``[node_problem]``, so Soperator replaces the node."""


class LeftoverPolicy(str, Enum):
    """What happens to processes that outlive their job."""

    REPORT = "report"
    KILL = "kill"
    """Only those that certainly belong to the ended job: by cgroup or SLURM_JOB_ID, and by user."""


class WhenBlind(str, Enum):
    """What a hook does without a fresh verdict."""

    ALLOW = "allow"
    """The node stays in service."""
    DRAIN = "drain"
    """The node is drained, within the budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindConfig:
    """Blind is not healthy. Whether a hook drains a blind node is the site's choice."""

    prolog: WhenBlind = WhenBlind.ALLOW
    epilog: WhenBlind = WhenBlind.ALLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetConfig:
    """How many nodes Holdfast may drain: the larger of the two limits (rule 4)."""

    max_nodes: int = 2
    max_share: float = 0.1
    """Of all nodes, 0 to 1."""
    users_share: float = 0.5
    """Share of the budget, 0 to 1, for drains because of faults that any user can cause
    (DISK_FULL, JOB_LEFTOVER, …). The rest is reserved for hardware faults."""
    domain_share: float = 0.5
    """Share of the nodes of a leaf switch or block of Slurm's topology, 0 to 1, that may be out of
    service by Holdfast. One node always may, if `max_nodes` and `max_share` allow it."""
    incident_share: float = 0.5
    """If more than this share of all nodes, or of a leaf switch or block, has the same fault, and there
    are at least 3, it is one incident: no further node of it is drained, and its comment says so."""

    def __post_init__(self) -> None:
        if self.max_nodes < 0:
            raise ValueError(f"max_nodes must not be negative, got {self.max_nodes}")
        within(
            self,
            max_share=(0, 1),
            users_share=(0, 1),
            domain_share=(0, 1),
            incident_share=(0, 1),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """What this node must have, and how it is drained."""

    expected_gpus: int = 8
    """0: a node without GPUs; NVML is not used then."""
    mounts: tuple[str, ...] = ()
    """Mount points that jobs need. None by default: only the site knows them."""
    disks: tuple[str, ...] = ("/",)
    """Local filesystems whose free space is checked, each given by any folder of it."""
    reason_style: ReasonStyle = ReasonStyle.HOLDFAST
    when_blind: BlindConfig = field(default_factory=BlindConfig)
    budget: BudgetConfig = field(default_factory=BudgetConfig)
    leftovers: LeftoverPolicy = LeftoverPolicy.REPORT
    """Killing users' processes is the site's choice, so by default they are only reported."""
    leftover_grace_s: float = 2.0
    """Time for a process to exit by itself after its job's end, after SIGTERM, and after SIGKILL.
    """
    allow_skip: bool = False
    """Whether ``sbatch --comment=skip_checks`` lets a job start on a bad node and without a report,
    as it does under Soperator's own checks. Users could then override the site, so not by default.
    """

    def __post_init__(self) -> None:
        within(self, expected_gpus=(0, 64), leftover_grace_s=(0, 60))
        for name in ("mounts", "disks"):
            wrong = [path for path in getattr(self, name) if not path.startswith("/")]
            if wrong:
                raise ValueError(
                    f"{name} must be absolute paths, got {', '.join(map(repr, wrong))}"
                )


class NodeDeathMode(str, Enum):
    """What agents do about a neighbour that gives no sign of life."""

    OFF = "off"
    """No heartbeats."""
    OBSERVE = "observe"
    """It is recorded in the history: `holdfast history --observed`."""
    ACT = "act"
    """The node is set DOWN in Slurm, which requeues its jobs at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDeathConfig:
    """Heartbeats among the agents, which find a node that lost power within seconds.

    Slurm needs SlurmdTimeout, five minutes by default.
    """

    mode: NodeDeathMode = NodeDeathMode.OBSERVE
    silent_s: float = 2.0
    """How long a node gives no sign of life before it counts as dead. A machine that stands still
    for so long looks the same."""
    port: int = 6822
    """Of the heartbeats (UDP). A TCP connect to it, which is refused, shows that a node lives:
    allow both between the nodes."""
    key_file: str = ""
    """A file with the same secret on all nodes, which only root can read. Empty: Slurm's own,
    /etc/slurm/slurm.key or /etc/munge/munge.key."""

    def __post_init__(self) -> None:
        within(self, silent_s=(1.5, 60), port=(1, 65535))
        if self.key_file and not self.key_file.startswith("/"):
            raise ValueError(f"key_file must be an absolute path, got {self.key_file!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """How the resident agent works."""

    interval_s: float = 10.0
    """Between two passes over all probes. Kernel log events do not wait for a pass."""
    probe_deadline_s: float = 2.0
    """After this a probe is abandoned. NVML answers in milliseconds."""
    verdict_ttl_s: float = 30.0
    """How long a verdict is valid: three intervals, so that one slow pass makes no hook blind."""
    recheck_passes: int = 2
    """Clean passes in a row before a node returns to service."""
    wait_s: float = 30.0
    """Shortest time out of service for a fault that requires no action but waiting."""
    max_wait_s: float = 3600.0
    """Upper limit of that time. Each return within `return_window_s` after a drain for the same
    code doubles it, also for faults that require an action.
    """
    return_window_s: float = 3600.0
    """How long a return counts. 0: the wait does not grow and no person is required."""
    max_returns: int = 4
    """After this many returns within `return_window_s` for the same code a node stays drained until
    a person resumes it. 0: the wait grows, but no person is required.
    """
    clock_interval_s: float = 3600.0
    """Between two reads of slurmctld's clock. Besides, the agent asks Slurm regularly only for the node
    table, twice a day."""
    slow_interval_s: float = 60.0
    """Between two reads of what changes slowly: services, kernel modules, sleeping tasks, slurmd.
    """
    dcgm_interval_s: float = 300.0
    """Between two reads of DCGM's health watches, which need a minute of samples themselves.
    """
    mlxlink_interval_s: float = 1800.0
    """Between two reads of the bit error rates of the InfiniBand links, one program run per link.
    """
    act_retry_s: float = 2.0
    """Time until a failed write to Slurm is tried again, on average; it doubles with each failure, to a
    minute.
    """
    return_test: ReturnTestMode = ReturnTestMode.OFF
    """Whether an active check (a job that loads the node) runs before a node's return: off, observe
    (it runs and is recorded), require (the node returns only if it passed; if its program is
    missing the node stays drained).
    """
    return_test_retry_s: float = 3600.0
    """Time until an active check that did not pass is tried again."""
    jobs_interval_s: float = 0.15
    """Between two queries for jobs that have to restart, while there are any."""
    history_max_bytes: int = 4_000_000
    """Maximum size of this node's history (`paths.history`); when it is full the older half is
    removed. An event takes about 300 bytes.
    """
    node_death: NodeDeathConfig = field(default_factory=NodeDeathConfig)
    metrics_port: int | None = None
    """Serve the metrics on this port, at /metrics. null: only the file `metrics.prom` in
    `paths.run`, for node_exporter's textfile collector.
    """
    metrics_host: str = "127.0.0.1"
    """The IPv4 address to serve them on. 0.0.0.0, for a Prometheus elsewhere: all addresses."""

    def __post_init__(self) -> None:
        within(
            self,
            interval_s=(0.2, 3600),
            probe_deadline_s=(0.05, 600),
            verdict_ttl_s=(1, 86400),
            recheck_passes=(1, 1000),
            wait_s=(0, 86400),
            max_wait_s=(0, 7 * 86400),
            return_window_s=(0, 7 * 86400),
            max_returns=(0, 100),
            clock_interval_s=(1, 86400),
            slow_interval_s=(1, 86400),
            dcgm_interval_s=(10, 86400),
            mlxlink_interval_s=(10, 86400),
            act_retry_s=(0.1, 600),
            return_test_retry_s=(1, 7 * 86400),
            jobs_interval_s=(0.05, 10),
            history_max_bytes=(100_000, 500_000_000),
        )
        if self.metrics_port is not None:
            within(self, metrics_port=(1, 65535))
        if not is_ipv4(self.metrics_host):
            raise ValueError(f"metrics_host must be an IPv4 address, got {self.metrics_host!r}")
        if self.verdict_ttl_s < self.interval_s + self.probe_deadline_s:
            raise ValueError(
                f"verdict_ttl_s must be at least interval_s + probe_deadline_s "
                f"({self.interval_s + self.probe_deadline_s:g}), got {self.verdict_ttl_s:g}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckConfig(Generic[L]):
    """One check: its mode, which decides what its findings may cause, and its limits."""

    limits: L
    mode: Mode = Mode.OBSERVE


CHECKS: Mapping[str, Any]
"""The schema of the section ``checks``: one entry for each row of the catalogue. Created on first
use, so that a hook that needs no check loads none."""


def __getattr__(name: str) -> Any:
    if name != "CHECKS":
        raise AttributeError(name)
    from slurm_hooks import checks  # noqa: PLC0415 - see CHECKS

    table = {check: CheckConfig[checks.load(check).limits] for check in checks.CATALOGUE}  # type: ignore[misc]
    globals()["CHECKS"] = table
    return table


def enabled(
    table: Mapping[str, CheckConfig[Any]], off: frozenset[str]
) -> Iterator[tuple[str, CheckConfig[Any]]]:
    """The checks that run: not in mode off, and not switched off by a kill-switch file."""
    for name, config in table.items():
        if config.mode is not Mode.OFF and name not in off:
            yield name, config

"""This half's part of the configuration: ``node``, ``agent`` and ``checks``.

The docstring after a field says what it means, in which unit, and why its default is what it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

from holdfast.config.bounds import within
from holdfast.policy.return_test import GateBack
from holdfast.vocabulary import Mode

L = TypeVar("L")


class ReasonStyle(str, Enum):
    """How a drain reason begins."""

    HOLDFAST = "holdfast"
    NODE_PROBLEM = "node_problem"
    """Behind ``[node_problem] ``, which makes Soperator replace the node."""


class LeftoverPolicy(str, Enum):
    """What is done with processes that outlive their job."""

    REPORT = "report"
    KILL = "kill"
    """Those that provably belong to the ended job: by cgroup or SLURM_JOB_ID, and its user."""


class WhenBlind(str, Enum):
    """What a hook does that finds no fresh verdict."""

    PASS = "pass"  # noqa: S105 - a word of the configuration
    HOLD = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindConfig:
    """Blindness is never "healthy"; whether it may take a node out is the site's choice, per
    hook.
    """

    prolog: WhenBlind = WhenBlind.PASS
    epilog: WhenBlind = WhenBlind.PASS


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetConfig:
    """How much of the cluster Holdfast may take out of service: the larger of the two (law 4)."""

    max_nodes: int = 2
    max_share: float = 0.1
    """Of all nodes, 0 to 1."""
    users_share: float = 0.5
    """How much of it, 0 to 1, drains may take for faults that any user can bring about
    (DISK_FULL, JOB_LEFTOVER, …): the rest stays free for hardware."""

    def __post_init__(self) -> None:
        if self.max_nodes < 0:
            raise ValueError(f"max_nodes must not be negative, got {self.max_nodes}")
        within(self, max_share=(0, 1), users_share=(0, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """What this node is meant to be, and how it leaves service."""

    expected_gpus: int = 8
    """0: a node without GPUs; NVML is not asked then."""
    mounts: tuple[str, ...] = ()
    """Mount points that jobs need. None by default: only the site knows them."""
    disks: tuple[str, ...] = ("/",)
    """Local filesystems whose space is watched, each by any folder of it."""
    reason_style: ReasonStyle = ReasonStyle.HOLDFAST
    when_blind: BlindConfig = field(default_factory=BlindConfig)
    budget: BudgetConfig = field(default_factory=BudgetConfig)
    leftovers: LeftoverPolicy = LeftoverPolicy.REPORT
    """Ending other people's processes is the site's choice, so by default they are only told."""
    leftover_grace_s: float = 2.0
    """For a process to go by itself after its job's end, again after SIGTERM, and after SIGKILL."""
    allow_skip: bool = False
    """Whether ``sbatch --comment=skip_checks`` lets a job start on a bad node and go unjudged, as
    it does under Soperator's own checks. A user's word then outranks the site's, so not by default.
    """

    def __post_init__(self) -> None:
        within(self, expected_gpus=(0, 64), leftover_grace_s=(0, 60))
        for name in ("mounts", "disks"):
            wrong = [path for path in getattr(self, name) if not path.startswith("/")]
            if wrong:
                raise ValueError(
                    f"{name} must be absolute paths, got {', '.join(map(repr, wrong))}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """How the resident agent works."""

    interval_s: float = 10.0
    """Between two passes over all probes. Kernel-log events do not wait for one."""
    probe_deadline_s: float = 2.0
    """After this a probe is abandoned. NVML answers in milliseconds."""
    verdict_ttl_s: float = 30.0
    """How long a verdict is believed: three intervals, so that one slow pass blinds no hook."""
    recheck_passes: int = 2
    """Clean passes in a row before a node is given back."""
    wait_s: float = 30.0
    """Least time out of service for a fault that asks for nothing but time."""
    max_wait_s: float = 3600.0
    """What that time grows to: each return within `return_window_s` after a drain for the same code
    doubles it, for faults that ask for more as well.
    """
    return_window_s: float = 3600.0
    """For so long a return counts. 0: the wait does not grow and nobody is asked."""
    max_returns: int = 4
    """After so many returns within `return_window_s` for the same code a node stays drained until a person
    resumes it. 0: the wait grows, but nobody is asked.
    """
    clock_interval_s: float = 60.0
    """Between two questions for slurmctld's clock; they are the agent's only steady Slurm calls."""
    slow_interval_s: float = 60.0
    """Between two looks at what changes slowly: services, kernel modules, sleeping tasks, slurmd.
    """
    dcgm_interval_s: float = 300.0
    """Between two questions for DCGM's health watches, which need a minute of samples themselves.
    """
    mlxlink_interval_s: float = 1800.0
    """Between two questions for the bit error rates of the InfiniBand links, a program for each.
    """
    act_retry_s: float = 2.0
    """After this, a Slurm write that failed is tried again."""
    gate_back: GateBack = GateBack.OFF
    """Whether an active check (a job that loads the node) stands before a node's return: off, observe
    (it runs and is written down), require (the node returns only if it passed; where its program is
    missing it stays out).
    """
    gate_retry_s: float = 3600.0
    """After this an active check that was not passed is tried again."""
    jobs_interval_s: float = 0.15
    """Between two looks after jobs that have to restart, while there are any."""
    history_max_bytes: int = 4_000_000
    """What this node's history may take (`paths.history`); the older half goes when it is full. An
    event takes about 300 bytes.
    """
    metrics_port: int | None = None
    """Serve the metrics on this port of 127.0.0.1, at /metrics. null: only the file `metrics.prom` in
    `paths.run`, as node_exporter's textfile collector takes it.
    """

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
            gate_retry_s=(1, 7 * 86400),
            jobs_interval_s=(0.05, 10),
            history_max_bytes=(100_000, 500_000_000),
        )
        if self.metrics_port is not None:
            within(self, metrics_port=(1, 65535))
        if self.verdict_ttl_s < self.interval_s + self.probe_deadline_s:
            raise ValueError(
                f"verdict_ttl_s must be at least interval_s + probe_deadline_s "
                f"({self.interval_s + self.probe_deadline_s:g}), got {self.verdict_ttl_s:g}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckConfig(Generic[L]):
    """One check: what it may do with its findings, and its limits."""

    limits: L
    mode: Mode = Mode.OBSERVE


CHECKS: Mapping[str, Any]
"""The schema of the section ``checks``: one entry for each row of the catalogue. Made when first
asked for, so that a hook that needs no check loads none."""


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
    """The checks that run: neither off in the configuration nor switched off by a file."""
    for name, config in table.items():
        if config.mode is not Mode.OFF and name not in off:
            yield name, config

"""The agent's metrics in Prometheus' text format. Pure.

Names, units and HELP follow prometheus.io/docs/practices/naming: base units, ``_total`` for
counters, one unit and one meaning per name. An unknown value has no sample, never a zero. The
metrics of the process are named ``holdfast_agent_…``, not ``process_…``, because node_exporter's
textfile collector also reads this text and has those names itself.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.version import VERSION
from holdfast.vocabulary import Status
from slurm_hooks.agent.drain.messages import SlurmStatus
from slurm_hooks.agent.telemetry.exposition import Family, Sample, counter, gauge, render
from slurm_hooks.agent.telemetry.fact_metrics import of_facts
from slurm_hooks.evaluation.judge import OpenFinding
from slurm_hooks.facts import NodeFacts
from slurm_hooks.probes.catalogue import PROBES

KMSG = "kmsg"


@dataclass(slots=True)
class AgentCounts:
    """The agent's own counts since its start; times in epoch seconds."""

    started_at: float
    passes: int = 0
    pass_seconds: float = 0.0
    last_pass_at: float | None = None
    config_problems: int = 0
    events: Counter[str] = field(default_factory=Counter)
    """Recorded in the history, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSnapshot:
    """All values at one moment. ``opened``: the open findings; ``wanted``: the probes that checks
    need; ``unwritten`` and ``failures`` are those of the history.
    """

    node: str
    status: Status
    slurm_status: SlurmStatus
    opened: Sequence[OpenFinding]
    facts: NodeFacts
    wanted: frozenset[str]
    counts: AgentCounts
    unwritten: int = 0
    failures: int = 0


def text_of(snapshot: AgentSnapshot) -> str:
    """The whole page."""
    return render([*_node(snapshot), *_agent(snapshot), *of_facts(snapshot.facts)])


def _node(now: AgentSnapshot) -> Iterator[Family]:
    yield gauge(
        "node_status",
        "Verdict of this node: 1 for the current status, 0 for the others.",
        [Sample(float(now.status is word), {"status": word.value}) for word in Status],
    )
    yield gauge(
        "node_drained",
        "Whether the node is drained, by any user; no sample while slurmctld does not answer.",
        [] if now.slurm_status.problem else [Sample(float(now.slurm_status.drained))],
    )
    yield gauge(
        "node_over_budget",
        "Whether this node stays in service only because the budget is used up.",
        [Sample(float(now.slurm_status.action == "over-budget"))],
    )
    made = now.slurm_status.made
    yield gauge(
        "node_returns_before_drain",
        "Recent returns to service before the agent's current drain; each makes the wait longer.",
        [Sample(float(made.returns if made else 0))],
    )
    yield gauge(
        "node_manual_resume_required",
        "Whether this node returned too often, so that a person has to resume it.",
        [Sample(float(made is not None and made.by_hand))],
    )
    yield gauge(
        "slurm_reachable",
        "Whether slurmctld answered the agent's last command.",
        [Sample(float(not now.slurm_status.problem))],
    )
    yield gauge("finding_open", "An open finding of a check; always 1.", _findings(now.opened))
    yield gauge(
        "probe_up",
        "Whether a probe that checks need answered last time.",
        _probes(now.facts, now.wanted),
    )
    yield gauge(
        "probe_unanswered_passes",
        "Passes in a row in which a probe gave no answer.",
        [Sample(blind.passes, {"probe": blind.probe}) for blind in now.facts.blind],
    )


def _findings(opened: Iterable[OpenFinding]) -> Iterator[Sample]:
    for entry in opened:
        found = entry.finding
        labels = {"check": found.check, "code": found.code, "subject": found.subject}
        labels |= {"severity": found.severity.name.lower(), "mode": entry.mode.value}
        yield Sample(1, labels)


def _probes(facts: NodeFacts, wanted: frozenset[str]) -> Iterator[Sample]:
    unanswered = {blind.probe for blind in facts.blind}
    fields: Mapping[str, str] = {probe.name: probe.facts for probe in PROBES} | {KMSG: KMSG}
    for name, where in fields.items():
        if name in unanswered:
            yield Sample(0, {"probe": name})
        elif name in wanted and getattr(facts, where, None) is not None:
            yield Sample(1, {"probe": name})


def _agent(now: AgentSnapshot) -> Iterator[Family]:
    counts = now.counts
    yield gauge(
        "agent_info",
        "The agent's version and the node's name in Slurm; always 1.",
        [Sample(1, {"version": VERSION, "node": now.node})],
    )
    yield gauge(
        "agent_start_time_seconds",
        "When the agent started, in seconds since the epoch.",
        [Sample(counts.started_at)],
    )
    yield counter(
        "agent_passes_total", "Passes over all probes since the start.", [Sample(counts.passes)]
    )
    yield counter(
        "agent_pass_seconds_total",
        "Sum of the durations of all passes since the start, each from its beginning to its last answer.",
        [Sample(counts.pass_seconds)],
    )
    yield gauge(
        "agent_last_pass_timestamp_seconds",
        "When the last pass ended, in seconds since the epoch.",
        [] if counts.last_pass_at is None else [Sample(counts.last_pass_at)],
    )
    yield gauge(
        "agent_config_problems",
        "Problems of the configuration file; if there are any, the last accepted one is used.",
        [Sample(counts.config_problems)],
    )
    yield counter(
        "events_total",
        "Events recorded in the history since the start, by name.",
        [Sample(count, {"event": name}) for name, count in sorted(counts.events.items())],
    )
    yield gauge("history_unwritten_events", "Events not written yet.", [Sample(now.unwritten)])
    yield gauge(
        "history_write_failures",
        "Failed writes of the history in a row.",
        [Sample(now.failures)],
    )
    yield from _resources()


def _resources() -> Iterator[Family]:
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    yield counter(
        "agent_cpu_seconds_total",
        "CPU time, user and system, of the agent itself and of its workers that have exited.",
        [
            Sample(own.ru_utime + own.ru_stime, {"of": "agent"}),
            Sample(children.ru_utime + children.ru_stime, {"of": "workers"}),
        ],
    )
    yield gauge(
        "agent_resident_memory_max_bytes",
        "Maximum resident memory of the agent itself since its start.",
        [Sample(own.ru_maxrss * 1024)],
    )

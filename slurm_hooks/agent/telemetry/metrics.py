"""The agent's metrics in Prometheus' text format. Pure: what is known in, text out.

Names, units and HELP follow prometheus.io/docs/practices/naming: base units, ``_total`` for counters,
one unit and one meaning for each name. A value that is not known has no sample, never a zero. Names
of the process itself are ours too (``holdfast_agent_…``, not ``process_…``), because the text is also
made for node_exporter's textfile collector, which has these names already.
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
from slurm_hooks.evaluation.judge import Opened
from slurm_hooks.facts import NodeFacts
from slurm_hooks.probes.catalogue import PROBES

KMSG = "kmsg"


@dataclass(slots=True)
class AgentCounts:
    """What the agent counts of itself since its start; times in epoch seconds."""

    started_at: float
    passes: int = 0
    pass_seconds: float = 0.0
    last_pass_at: float | None = None
    config_problems: int = 0
    events: Counter[str] = field(default_factory=Counter)
    """Noted for the history, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything at one moment. ``opened`` are the open findings, ``wanted`` the probes that checks
    need; ``unwritten`` and ``failures`` are of the history.
    """

    node: str
    status: Status
    slurm_status: SlurmStatus
    opened: Sequence[Opened]
    facts: NodeFacts
    wanted: frozenset[str]
    counts: AgentCounts
    unwritten: int = 0
    failures: int = 0


def text_of(snapshot: Snapshot) -> str:
    """The whole page."""
    return render([*_node(snapshot), *_agent(snapshot), *of_facts(snapshot.facts)])


def _node(now: Snapshot) -> Iterator[Family]:
    yield gauge(
        "node_status",
        "Verdict of this node: 1 for the word that holds, 0 for the others.",
        [Sample(float(now.status is word), {"status": word.value}) for word in Status],
    )
    yield gauge(
        "node_drained",
        "Whether slurmctld gives this node no new work, whoever drained it; unknown while it cannot be asked.",
        [] if now.slurm_status.problem else [Sample(float(now.slurm_status.drained))],
    )
    yield gauge(
        "node_over_budget",
        "Whether this node should have left service and the budget did not admit it.",
        [Sample(float(now.slurm_status.action == "over-budget"))],
    )
    made = now.slurm_status.made
    yield gauge(
        "node_returns_before_drain",
        "How often this node had returned lately before the agent's drain that stands; each makes it wait longer.",
        [Sample(float(made.returns if made else 0))],
    )
    yield gauge(
        "node_resume_by_hand",
        "Whether this node returned too often, so that only a person gives it back.",
        [Sample(float(made is not None and made.by_hand))],
    )
    yield gauge(
        "slurm_reachable",
        "Whether the agent's last question to slurmctld was answered.",
        [Sample(float(not now.slurm_status.problem))],
    )
    yield gauge("finding_open", "An open finding of a check; always 1.", _findings(now.opened))
    yield gauge(
        "probe_up",
        "Whether a probe that checks need answered when it was asked last.",
        _probes(now.facts, now.wanted),
    )
    yield gauge(
        "probe_silent_passes",
        "Passes in a row in which a probe gave no answer.",
        [Sample(blind.passes, {"probe": blind.probe}) for blind in now.facts.blind],
    )


def _findings(opened: Iterable[Opened]) -> Iterator[Sample]:
    for entry in opened:
        found = entry.finding
        labels = {"check": found.check, "code": found.code, "subject": found.subject}
        labels |= {"severity": found.severity.name.lower(), "mode": entry.mode.value}
        yield Sample(1, labels)


def _probes(facts: NodeFacts, wanted: frozenset[str]) -> Iterator[Sample]:
    silent = {blind.probe for blind in facts.blind}
    fields: Mapping[str, str] = {probe.name: probe.facts for probe in PROBES} | {KMSG: KMSG}
    for name, where in fields.items():
        if name in silent:
            yield Sample(0, {"probe": name})
        elif name in wanted and getattr(facts, where, None) is not None:
            yield Sample(1, {"probe": name})


def _agent(now: Snapshot) -> Iterator[Family]:
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
        "Time from the beginning of each pass to its last answer, summed up since the start.",
        [Sample(counts.pass_seconds)],
    )
    yield gauge(
        "agent_last_pass_timestamp_seconds",
        "When the last pass ended, in seconds since the epoch.",
        [] if counts.last_pass_at is None else [Sample(counts.last_pass_at)],
    )
    yield gauge(
        "agent_config_problems",
        "Problems of the configuration file; with any, the last one that was accepted goes on.",
        [Sample(counts.config_problems)],
    )
    yield counter(
        "events_total",
        "Events noted for the history since the start, by name.",
        [Sample(count, {"event": name}) for name, count in sorted(counts.events.items())],
    )
    yield gauge(
        "history_unwritten_events", "Events that wait to be written.", [Sample(now.unwritten)]
    )
    yield gauge(
        "history_write_failures",
        "Writes of the history in a row that failed.",
        [Sample(now.failures)],
    )
    yield from _resources()


def _resources() -> Iterator[Family]:
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    yield counter(
        "agent_cpu_seconds_total",
        "CPU time, user and system: of the agent itself and of its workers that have ended.",
        [
            Sample(own.ru_utime + own.ru_stime, {"of": "agent"}),
            Sample(children.ru_utime + children.ru_stime, {"of": "workers"}),
        ],
    )
    yield gauge(
        "agent_resident_memory_max_bytes",
        "The most memory that the agent itself has had resident since its start.",
        [Sample(own.ru_maxrss * 1024)],
    )

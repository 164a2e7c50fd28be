"""``holdfast check``: probe this node once, as the agent would, and show every value with its
limit.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from holdfast.config.location import config_path
from holdfast.console import complain, say, say_json, table
from holdfast.errors import ProbeError, UsageError
from holdfast.faults import fault_of
from holdfast.findings import Finding
from holdfast.vocabulary import Mode, Severity
from slurm_hooks import checks, machine, settings
from slurm_hooks.agent import state
from slurm_hooks.agent.judge import Table, judge
from slurm_hooks.agent.observer import Observer
from slurm_hooks.config import CheckConfig
from slurm_hooks.facts import NodeFacts
from slurm_hooks.prober import Prober
from slurm_hooks.probes.kmsg import KmsgFollower
from slurm_hooks.settings import Settings

EXAMPLE = """\
examples:
  holdfast check                  # every check that is not off
  holdfast check gpu_xid mounts   # these two, off or not

Looks once and changes nothing: no verdict is written, Slurm is not told. What takes several looks
(a port that flaps, a GPU that stays hot) is judged with what the agent remembers.

exit status: 0 nothing to do, 1 something was found or could not be looked at, 2 used wrongly
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table. ``verdict``: ok, info, warn, fatal or blind."""

    check: str
    mode: str
    subject: str
    value: str
    limit: str
    verdict: str
    remedy: str = ""


def main(argv: Sequence[str]) -> int:
    """The command. Raises ConfigError and UsageError."""
    parser = argparse.ArgumentParser(
        prog="holdfast check",
        description="Probe this node once, as the agent would.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="checks (default: all not off)")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--config", help="default: $HOLDFAST_CONFIG, else /etc/holdfast/…")
    asked = parser.parse_args(argv)
    config = settings.load(config_path(asked.config))
    wanted = _wanted(asked.names, config)
    facts = look(config, wanted)
    rows = list(_rows(wanted, facts))
    if asked.json:
        say_json([_plain(row) for row in rows])
    else:
        _print(rows)
    return 1 if any(row.verdict in ("warn", "fatal", "blind") for row in rows) else 0


def _wanted(names: Sequence[str], config: Settings) -> Table:
    if not names:
        return config.active()
    for name in names:
        if name not in checks.CATALOGUE:
            close = difflib.get_close_matches(name, checks.CATALOGUE, n=1)
            hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(checks.CATALOGUE)}"
            raise UsageError(f"no check is called {name!r}; {hint}")
    return {name: config.checks[name] for name in checks.CATALOGUE if name in names}


def look(config: Settings, wanted: Table) -> NodeFacts:
    """One pass over the probes that these checks need, with the agent's memory beside it."""
    paths = config.cluster.paths
    memory, problem = state.load(state.path_in(paths.state))
    if problem:
        complain(f"holdfast check: {problem}")
    observer = Observer(config.node.expected_gpus, machine.boot_id(paths.procfs), memory)
    problem = _hear(observer, config)
    prober = Prober(config.node, config.agent, paths, config.cluster.slurm)
    readings = prober.run(config.probes(wanted))
    prober.close()
    observer.see(readings, log_problem=problem, uptime_s=machine.uptime_s(paths.procfs))
    return observer.facts


def _hear(observer: Observer, config: Settings) -> str:
    try:
        follower = KmsgFollower(config.cluster.paths.kmsg, observer.memory.kmsg_seq)
        observer.hear(follower.read(), renewed=follower.renewed)
        follower.close()
    except ProbeError as error:
        return str(error)
    return ""


def _rows(wanted: Table, facts: NodeFacts) -> Iterator[Row]:
    silent = {blind.probe: blind.why for blind in facts.blind}
    for name, config in wanted.items():
        needs = checks.load(name).NEEDS
        if needs in silent:
            yield Row(
                check=name,
                mode=config.mode.value,
                subject=needs,
                value=silent[needs],
                limit="answers",
                verdict="blind",
                remedy="Find out why the probe cannot look; until then nothing is known here.",
            )
        else:
            yield from _rows_of(name, config, facts)


def _rows_of(name: str, config: CheckConfig[Any], facts: NodeFacts) -> Iterator[Row]:
    found: dict[str, list[Finding]] = {}
    for finding in judge(name, config, facts):
        found.setdefault(finding.subject, []).append(finding)
    shown = list(checks.load(name).show(facts, config.limits))
    for reading in shown:
        findings = found.pop(reading.subject, [])
        worst = max(findings, key=lambda f: f.severity, default=None)
        yield _row(name, config.mode, reading, worst)
    for findings in found.values():
        for finding in findings:
            reading = checks.Reading(subject=finding.subject, value=finding.detail, limit="-")
            yield _row(name, config.mode, reading, finding)
    if not shown and not found:
        reading = checks.Reading(subject="-", value="nothing to look at", limit="-")
        yield _row(name, config.mode, reading, None)


def _row(name: str, mode: Mode, reading: checks.Reading, finding: Finding | None) -> Row:
    verdict = "ok" if finding is None else _word(finding.severity)
    remedy = "" if finding is None else f"{finding.code}: {fault_of(finding.code).runbook}"
    return Row(
        check=name,
        mode=mode.value,
        subject=reading.subject,
        value=reading.value,
        limit=reading.limit,
        verdict=verdict,
        remedy=remedy,
    )


def _word(severity: Severity) -> str:
    return severity.name.lower()


def _plain(row: Row) -> dict[str, str]:
    return {
        "check": row.check,
        "mode": row.mode,
        "subject": row.subject,
        "value": row.value,
        "limit": row.limit,
        "verdict": row.verdict,
        "what_to_do": row.remedy,
    }


def _print(rows: Sequence[Row]) -> None:
    head = ("CHECK", "MODE", "SUBJECT", "VALUE", "LIMIT", "VERDICT", "WHAT TO DO")
    say(table([head, *_folded(rows)]))


def _folded(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """The table's lines; what is well and says the same of several subjects takes one line."""

    def alike(row: Row) -> tuple[str, ...]:
        own = row.subject if row.verdict != "ok" else ""
        return (row.check, row.mode, row.value, row.limit, row.verdict, row.remedy, own)

    for (check, mode, value, limit, verdict, remedy, _), group in groupby(rows, alike):
        subjects = [row.subject for row in group]
        subject = (
            subjects[0] if len(subjects) == 1 else f"{subjects[0]} and {len(subjects) - 1} more"
        )
        yield (check, mode, subject, value, limit, verdict, remedy)

"""``holdfast check``: probe this node once, as the agent would, and show every value with its
limit.
"""

from __future__ import annotations

import argparse
import difflib
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from holdfast.cli.console import complain, say_coloured, say_json
from holdfast.config.location import config_path
from holdfast.errors import ProbeError, UsageError
from holdfast.faults import fault_of
from holdfast.findings import Finding, Verdict
from holdfast.policy.node import draining
from holdfast.remedy import to_do
from holdfast.vocabulary import Mode, Severity
from slurm_hooks import checks
from slurm_hooks.cli.check.row import BLIND, EFFECTS, OK, UNSEEN, Look, Row, linked
from slurm_hooks.cli.check.table import is_bad, page
from slurm_hooks.evaluation.judge import Table, judge
from slurm_hooks.evaluation.observer import Observer
from slurm_hooks.facts import NodeFacts
from slurm_hooks.node import machine
from slurm_hooks.probes.kmsg import KmsgFollower
from slurm_hooks.probes.runner import Prober
from slurm_hooks.settings import settings
from slurm_hooks.settings.sections import CheckConfig
from slurm_hooks.settings.settings import Settings
from slurm_hooks.tracking import store

_WHEN_BLIND = "Find out why this cannot be looked at; until then nothing is known here."

_MOST_READS = 50
"""A read gives some thousand records; a ring has hardly a hundred thousand, and a storm has no end."""

EXAMPLE = """\
examples:
  holdfast check                  # every check that is not off
  holdfast check gpu_xid mounts   # these two, off or not
  holdfast check --all            # a row for each GPU, port and mount

What is wrong comes first, with what to do; what the agent does about it is said below. What is well
takes one line a check.

Looks once and changes nothing: no verdict is written, Slurm is not told. What takes several looks
(a port that flaps, a GPU that stays hot) is judged with what the agent remembers.

Lines are as wide as the terminal or COLUMNS, else 120; programs take --json.

exit status: 0 nothing to do, 1 something was found or could not be looked at, 2 used wrongly
"""


def main(argv: Sequence[str]) -> int:
    """The command. Raises ConfigError and UsageError."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast check",
        description="Probe this node once, as the agent would.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="checks (default: all not off)")
    parser.add_argument("--all", action="store_true", help="a row for each GPU, port and mount")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--config", help="default: $HOLDFAST_CONFIG, else /etc/holdfast/…")
    asked = parser.parse_args(argv)
    config = settings.load(config_path(asked.config))
    wanted = _wanted(asked.names, config)
    facts = look(config, wanted)
    rows = linked(list(rows_of(wanted, facts)))
    if asked.json:
        say_json([row.plain for row in rows])
    else:
        say_coloured(page(machine.node_name(), rows, _terminal(asked.all)))
    return 1 if is_bad(rows) else 0


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
    memory, problem = store.load(store.path_in(paths.state))
    if problem:
        complain(f"holdfast check: {problem}")
    boot_id = machine.boot_id(paths.procfs)
    observer = Observer(config.node.expected_gpus, boot_id, memory, config.expected_hcas)
    problem = _hear(observer, config)
    prober = Prober(config.node, config.agent, paths, config.cluster.slurm)
    readings = prober.run(config.probes(wanted))
    prober.close()
    observer.see(readings, log_problem=problem, uptime_s=machine.uptime_s(paths.procfs))
    # What jobs left behind the agent looks for at a job's end, and nobody does here.
    return replace(observer.facts, leftovers=None)


def _hear(observer: Observer, config: Settings) -> str:
    try:
        follower = KmsgFollower(config.cluster.paths.kmsg, observer.memory.kmsg_seq)
        for _ in range(_MOST_READS):
            records = follower.read()
            observer.hear(records, renewed=follower.renewed)
            follower.renewed = False
            if not records:
                break
        follower.close()
    except ProbeError as error:
        return str(error)
    return ""


def rows_of(wanted: Table, facts: NodeFacts) -> Iterator[Row]:
    """Every value that these checks looked at, in the order of the catalogue."""
    silent = {blind.probe: blind.why for blind in facts.blind}
    for name, config in wanted.items():
        probe = checks.load(name).probe
        if probe in silent:
            yield Row(
                check=name,
                mode=config.mode.value,
                subject=probe,
                name=probe,
                value=silent[probe] or "no answer",
                limit="answers",
                verdict=BLIND,
                remedy=_WHEN_BLIND,
            )
        else:
            yield from _rows_of(name, config, facts)


def _rows_of(name: str, config: CheckConfig[Any], facts: NodeFacts) -> Iterator[Row]:
    found: dict[str, list[Finding]] = {}
    for finding in judge(name, config, facts):
        found.setdefault(finding.subject, []).append(finding)
    shown: dict[str, list[checks.Reading]] = {}
    for reading in checks.load(name).show(facts, config.limits):
        shown.setdefault(reading.subject, []).append(reading)
    for subject, readings in shown.items():
        for reading, one in _paired(readings, found.pop(subject, [])):
            yield _row(name, config.mode, reading, one, facts)
    for findings in found.values():
        for finding in findings:
            yield _row(name, config.mode, _detail(finding), finding, facts)
    if not shown and not found:
        nothing = checks.Reading(subject="-", value="nothing to look at", limit="-", seen=False)
        yield _row(name, config.mode, nothing, None, facts)


def _paired(
    readings: Sequence[checks.Reading], findings: Sequence[Finding]
) -> Iterator[tuple[checks.Reading, Finding | None]]:
    """Which value goes with which finding of the same subject.

    One of each belong together, and those of one code. Of others nobody knows: the findings speak for
    themselves then, and no value of theirs is shown as if it were well.
    """
    if not findings:
        yield from ((reading, None) for reading in readings)
    elif len(readings) == len(findings) == 1:
        yield readings[0], findings[0]
    else:
        of_code = {reading.code: reading for reading in readings if reading.code}
        for finding in findings:
            yield of_code.get(finding.code, _detail(finding)), finding


def _detail(finding: Finding) -> checks.Reading:
    return checks.Reading(subject=finding.subject, value=finding.detail, limit="-")


def _row(
    name: str, mode: Mode, reading: checks.Reading, finding: Finding | None, facts: NodeFacts
) -> Row:
    row = Row(
        check=name,
        mode=mode.value,
        subject=reading.subject,
        name=_name(reading.subject, facts),
        value=reading.value,
        limit=reading.limit,
        verdict=OK if reading.seen else BLIND if reading.expected else UNSEEN,
        remedy="" if reading.seen or not reading.expected else _WHEN_BLIND,
    )
    if finding is None:
        return row
    fault = fault_of(finding.code)
    return replace(
        row,
        verdict=finding.severity.name.lower(),
        code=finding.code,
        remedy=to_do(finding.code, fault.runbook, fault.action, finding.action),
        effect=_effect(name, mode, finding),
        needs=finding.action,
        cause=finding.cause,
    )


def _effect(name: str, mode: Mode, finding: Finding) -> str:
    """What the agent does about it, once it has seen it as often as the check asks for."""
    if finding.severity is Severity.INFO:
        return "only recorded"
    drains = draining(Verdict(findings=(replace(finding, check=name),)), {name: mode})
    if mode is Mode.DRAIN and drains is None:
        return "Holdfast notes in Slurm, for no node leaves service for it alone"
    return EFFECTS[mode]


def _name(subject: str, facts: NodeFacts) -> str:
    """The subject as people say it: a GPU by its index on this node."""
    gpu = next((gpu for gpu in facts.gpus if gpu.subject == subject), None)
    return subject if gpu is None or gpu.index is None else f"GPU {gpu.index}"


def _terminal(everything: bool) -> Look:
    """The look that standard output can take: COLUMNS, NO_COLOR and TERM=dumb are honoured."""
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    width = shutil.get_terminal_size((Look().width, 24)).columns
    return Look(width=width, colour=sys.stdout.isatty() and not plain, everything=everything)

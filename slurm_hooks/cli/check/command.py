"""``holdfast check``: probes this node once, as the agent does, and shows each value with its limit."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from holdfast.cli.console import complain, say_coloured, say_json
from holdfast.config.path import config_path
from holdfast.errors import ProbeError, UsageError
from holdfast.faults import fault_of
from holdfast.findings import Finding, Verdict
from holdfast.policy.node_inputs import draining
from holdfast.text.remedy import to_do
from holdfast.text.wording import suggest
from holdfast.vocabulary import Mode, Severity
from slurm_hooks import checks
from slurm_hooks.cli.check.notes import notes
from slurm_hooks.cli.check.row import BLIND, EFFECTS, OK, UNSEEN, Row, Style, linked
from slurm_hooks.cli.check.table import is_bad, page
from slurm_hooks.evaluation.judge import Table, judge
from slurm_hooks.evaluation.observer import Observer
from slurm_hooks.facts import NodeFacts
from slurm_hooks.node import machine
from slurm_hooks.probes.kmsg.follower import KmsgFollower
from slurm_hooks.probes.runner import Prober
from slurm_hooks.settings import settings
from slurm_hooks.settings.sections import CheckConfig
from slurm_hooks.settings.settings import Settings
from slurm_hooks.tracking import store

_WHEN_BLIND = "Find out why this cannot be read; until then its state is not known."

_MOST_READS = 50
"""A read returns some thousand records and a ring holds less than a hundred thousand. Without a limit a
storm of records would keep this loop busy."""

EXAMPLE = """\
examples:
  holdfast check                  # all checks that are not off
  holdfast check gpu_xid mounts   # these two, also if they are off
  holdfast check --all            # a row for each GPU, port and mount

Problems come first, each with what to do. The last lines show what the agent does about them. A
check without a problem takes one line.

Runs the probes once and changes nothing: it writes no verdict and does not change Slurm. Checks that
need several passes (a flapping port, a GPU that stays hot) use the agent's saved state.

Lines are as wide as the terminal or COLUMNS, else 120 columns. Use --json in programs.

exit status: 0 no problem, 1 a problem was found or a probe failed, 2 usage error
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast check",
        description="Probe this node once, as the agent does, and show each value with its limit.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="checks to run (default: all that are not off)"
    )
    parser.add_argument("--all", action="store_true", help="a row for each GPU, port and mount")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument(
        "--config",
        help="configuration file (default: $HOLDFAST_CONFIG, else /etc/holdfast/holdfast.yaml)",
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """Runs the command. Raises ConfigError and UsageError."""
    args = parser().parse_args(argv)
    config = settings.load(config_path(args.config))
    wanted = _wanted(args.names, config)
    facts = probe_once(config, wanted)
    rows = linked(list(rows_of(wanted, facts)))
    below = list(notes(config))
    if args.json:
        for note in below:
            complain(f"holdfast check: {note}")
        say_json([row.plain for row in rows])
    else:
        say_coloured(page(machine.node_name(), rows, _terminal_style(args.all), below))
    return 1 if is_bad(rows) else 0


def _wanted(names: Sequence[str], config: Settings) -> Table:
    if not names:
        return config.active()
    for name in names:
        if name not in checks.CATALOGUE:
            raise UsageError(f"unknown check {name!r}{suggest(name, checks.CATALOGUE)}")
    return {name: _effective(name, config) for name in checks.CATALOGUE if name in names}


def _effective(name: str, config: Settings) -> CheckConfig[Any]:
    """The check with the mode that it really has: the kill switches change it."""
    off = replace(config.checks[name], mode=Mode.OFF)
    return config.active().get(name, off)


def probe_once(config: Settings, wanted: Table) -> NodeFacts:
    """Runs the probes that these checks need once, and adds the agent's saved state."""
    paths = config.cluster.paths
    memory, problem = store.load(store.path_in(paths.state))
    if problem:
        complain(f"holdfast check: {problem}")
    boot_id = machine.boot_id(paths.procfs)
    observer = Observer(config.node.expected_gpus, boot_id, memory, config.expected_hcas)
    problem = _read_kernel_log(observer, config)
    prober = Prober(config.node, config.agent, paths, config.cluster.slurm)
    readings = prober.run(config.probes(wanted))
    prober.close()
    observer.read_probes(readings, log_problem=problem, uptime_s=machine.uptime_s(paths.procfs))
    # The agent looks for leftovers of jobs at a job's end; this command does not.
    return replace(observer.facts, leftovers=None)


def _read_kernel_log(observer: Observer, config: Settings) -> str:
    try:
        follower = KmsgFollower(config.cluster.paths.kmsg, observer.tracked.kmsg_seq)
        for _ in range(_MOST_READS):
            records = follower.read()
            observer.read_kernel_log(records, renewed=follower.renewed)
            follower.renewed = False
            if not records:
                break
        follower.close()
    except ProbeError as error:
        return str(error)
    return ""


def rows_of(wanted: Table, facts: NodeFacts) -> Iterator[Row]:
    """A row for every value of these checks, in the order of the catalogue."""
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
        for reading, match in _paired(readings, found.pop(subject, [])):
            yield _row(name, config.mode, reading, match, facts)
    for rest in found.values():
        for left in rest:
            yield _row(name, config.mode, _detail(left), left, facts)
    if not shown and not found:
        nothing = checks.Reading(subject="-", value="nothing to check", limit="-", seen=False)
        yield _row(name, config.mode, nothing, None, facts)


def _paired(
    readings: Sequence[checks.Reading], findings: Sequence[Finding]
) -> Iterator[tuple[checks.Reading, Finding | None]]:
    """Which value belongs to which finding of the same subject.

    A single value belongs to a single finding, and values belong to findings of the same code. Other
    findings are shown with their own detail, and their values are not shown as ok.
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
        required_action=finding.action,
        cause=finding.cause,
    )


def _effect(name: str, mode: Mode, finding: Finding) -> str:
    """What the agent does about the finding, after as many passes as the check requires."""
    if finding.severity is Severity.INFO:
        return "recorded only"
    drains = draining(Verdict(findings=(replace(finding, check=name),)), {name: mode})
    if mode is Mode.DRAIN and drains is None:
        return "Holdfast comments in Slurm (not a reason to drain)"
    return EFFECTS[mode]


def _name(subject: str, facts: NodeFacts) -> str:
    """The subject for people: a GPU by its index on this node."""
    gpu = next((gpu for gpu in facts.gpus if gpu.subject == subject), None)
    return subject if gpu is None or gpu.index is None else f"GPU {gpu.index}"


def _terminal_style(all_rows: bool) -> Style:
    """The style for standard output, by COLUMNS, NO_COLOR and TERM=dumb."""
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    width = shutil.get_terminal_size((Style().width, 24)).columns
    return Style(width=width, colour=sys.stdout.isatty() and not plain, all_rows=all_rows)

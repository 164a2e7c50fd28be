"""Facts → open findings: runs the checks and applies their open and clear rules. Pure.

A finding opens after a number of passes in a row that saw it, and closes after a number of passes
that probed and did not see it. A pass without an answer changes nothing: it is not evidence either
way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast.findings import Finding, Verdict
from holdfast.policy.node_inputs import draining
from holdfast.vocabulary import Action, Mode
from slurm_hooks import checks
from slurm_hooks.facts import NodeFacts
from slurm_hooks.settings.sections import CheckConfig
from slurm_hooks.tracking.node import Streak

_RANK = {action: rank for rank, action in enumerate(Action)}

Table = Mapping[str, CheckConfig[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFinding:
    """One open finding, the mode of its check, and since when (epoch s) it is open."""

    finding: Finding
    mode: Mode
    since: float = 0.0


def judge(name: str, config: CheckConfig[Any], facts: NodeFacts) -> list[Finding]:
    """The findings of one check in these facts, whether they are open or not."""
    found = checks.load(name).judge(facts, config.limits)
    return [replace(finding, check=name) for finding in found]


def fold(
    streaks: Mapping[str, Streak],
    table: Table,
    facts: NodeFacts,
    looked: frozenset[str],
    now: float,
) -> dict[str, Streak]:
    """The streaks after this pass. ``looked``: the probes that answered in it; the streaks of
    checks that need another probe do not change. Checks that are not in ``table`` (mode off) have
    no streaks."""
    after: dict[str, Streak] = {}
    for name, config in table.items():
        before = {key: s for key, s in streaks.items() if s.finding.check == name}
        probe = checks.load(name).probe
        if probe and probe not in looked:
            after.update(before)
            continue
        after.update(_fold_check(before, judge(name, config, facts), config.limits, facts, now))
    return after


def _fold_check(
    before: Mapping[str, Streak],
    found: list[Finding],
    limits: checks.Limits,
    facts: NodeFacts,
    now: float,
) -> Iterator[tuple[str, Streak]]:
    sighted = {_key(finding): finding for finding in found}
    for key, finding in sighted.items():
        old = before.get(key, Streak(finding=finding))
        seen = old.seen + 1
        opens = not old.open and seen >= limits.open_after
        yield (
            key,
            Streak(
                finding=finding,
                seen=seen,
                open=old.open or opens,
                since=now if opens else old.since,
            ),
        )
    for key, old in before.items():
        if key in sighted:
            continue
        if not _could_see(old.finding, facts):
            yield key, old
            continue
        clean = old.clean + 1
        if old.open and clean < limits.clear_after:
            yield key, replace(old, seen=0, clean=clean)


def _could_see(finding: Finding, facts: NodeFacts) -> bool:
    """False if the finding's subject cannot be judged from these facts (by the check's
    ``could_see``, if it has one), or if its GPU does not answer: then its faults are not gone.
    """
    check = checks.load(finding.check)
    if not check.could_see(finding, facts):
        return False
    if finding.gpu is None or check.probe != "nvml":
        return True
    gpu = next((gpu for gpu in facts.gpus if gpu.index == finding.gpu), None)
    return gpu is not None and gpu.answers


def _key(finding: Finding) -> str:
    return f"{finding.check}|{finding.code}|{finding.subject}"


def opened(streaks: Mapping[str, Streak], table: Table) -> tuple[OpenFinding, ...]:
    """The open findings, worst first."""
    found = [
        OpenFinding(finding=s.finding, mode=table[s.finding.check].mode, since=s.since)
        for s in streaks.values()
        if s.open and s.finding.check in table
    ]
    return tuple(sorted(found, key=_worst_first))


def _worst_first(entry: OpenFinding) -> tuple[object, ...]:
    found = entry.finding
    rank = _RANK[found.action]
    return (not found.cause, -found.severity, -rank, entry.since, found.check, found.subject)


def nothing_drains(streaks: Mapping[str, Streak], table: Table, facts: NodeFacts) -> bool:
    """Whether no finding that drains is open or about to open. That a check still waits
    (``open_after``, ``grace_s``) is not evidence that a fault is over.
    """
    found = [s.finding for s in streaks.values() if s.finding.check in table]
    for name, config in table.items():
        if hasattr(config.limits, "grace_s"):
            no_grace = replace(config.limits, grace_s=0.0)
            found += judge(name, replace(config, limits=no_grace), facts)
    return draining(Verdict(findings=tuple(found)), modes_of(table)) is None


def modes_of(table: Table) -> dict[str, Mode]:
    """What each check may do."""
    return {name: config.mode for name, config in table.items()}

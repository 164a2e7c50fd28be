"""The agent's verdict file: the status of the node, and the findings and the decision behind it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from holdfast.adapters.log import Log
from holdfast.config.schema import PathsConfig
from holdfast.findings import Finding, Verdict
from holdfast.records import verdict_file
from holdfast.version import VERSION
from holdfast.vocabulary import Mode, Severity, Status
from slurm_hooks.agent.drain.messages import SlurmStatus
from slurm_hooks.agent.drain.record import plain
from slurm_hooks.agent.verdict.facts_summary import brief
from slurm_hooks.evaluation.judge import OpenFinding
from slurm_hooks.facts import NodeFacts
from slurm_hooks.node import machine

log = Log("agent")


def enforced(opened: Iterable[OpenFinding]) -> tuple[Finding, ...]:
    """The findings that count for the status: those of checks in mode drain as they are, those in
    mode comment at most as a warning, those in mode observe not at all."""
    counted = []
    for entry in opened:
        if entry.mode is Mode.DRAIN:
            counted.append(entry.finding)
        elif entry.mode is Mode.COMMENT:
            severity = min(entry.finding.severity, Severity.WARN)
            counted.append(replace(entry.finding, severity=severity))
    return tuple(counted)


def status(verdict: Verdict, slurm_status: SlurmStatus) -> Status:
    """The status that hooks act on. Over the budget a bad node stays in service, so hooks must not
    see "bad" either.
    """
    word = verdict.status
    if word is Status.BAD and slurm_status.action == "over-budget":
        return Status.SUSPECT
    return word


def detail(
    node: str,
    opened: Sequence[OpenFinding],
    verdict: Verdict,
    slurm_status: SlurmStatus,
    **about: Any,
) -> dict[str, Any]:
    """Line 2 of the verdict file, without the status."""
    return {
        "node": node,
        "findings": [_finding(entry) for entry in opened],
        "blind": list(verdict.blind),
        "decision": _decision(slurm_status),
        "drained": slurm_status.drained,
        "problem": slurm_status.problem,
        "version": VERSION,
        **about,
    }


def _decision(slurm_status: SlurmStatus) -> dict[str, Any]:
    """The decision and its reason, and the record of this agent's own drain. With it a reader can
    prove whose drain Slurm shows (``policy.ownership``), and what the drain waits for.
    """
    return {
        "action": slurm_status.action,
        "reason": slurm_status.reason,
        "why": slurm_status.why,
        "made": plain(slurm_status.made) if slurm_status.made else None,
    }


def _finding(entry: OpenFinding) -> dict[str, Any]:
    found = entry.finding
    return {
        "code": found.code,
        "severity": found.severity.name.lower(),
        "subject": found.subject,
        "detail": found.detail,
        "action": found.action.value,
        "gpu": found.gpu,
        "cause": found.cause,
        "check": found.check,
        "mode": entry.mode.value,
        "since": entry.since,
        "left_s": found.left_s,
    }


class Publisher:
    """Writes the verdict file. ``status`` is the status published last."""

    def __init__(self, node: str, boot_id: str, paths: PathsConfig, ttl_s: float) -> None:
        self._node, self._boot_id, self._ttl_s = node, boot_id, ttl_s
        self._path, self._procfs = verdict_file.path_in(paths.run), paths.procfs
        self._reserve = verdict_file.reserve_for(paths.run)
        self._logged: tuple[object, ...] = ()
        self.status = Status.BLIND

    def publish(
        self,
        opened: Sequence[OpenFinding],
        verdict: Verdict,
        slurm_status: SlurmStatus,
        facts: NodeFacts,
    ) -> None:
        """Publish the verdict, valid for the time to live from now on. Raises OSError."""
        word = status(verdict, slurm_status)
        content = detail(
            self._node,
            opened,
            verdict,
            slurm_status,
            at=time.time(),
            facts=brief(facts),
            boot_id=self._boot_id,
            agent_pid=os.getpid(),
        )
        expires_s = int(machine.uptime_s(self._procfs) + self._ttl_s)
        text = verdict_file.render(word, expires_s=expires_s, boot_id=self._boot_id, detail=content)
        verdict_file.write(self._path, text, self._reserve)
        self.status = word
        summary = (
            word,
            [entry.finding.code for entry in opened],
            slurm_status.action,
            verdict.blind,
        )
        if summary != self._logged:
            codes = ",".join(entry.finding.code for entry in opened) or "-"
            blind = ",".join(verdict.blind) or "-"
            log.info(
                "verdict",
                status=word.value,
                findings=codes,
                blind=blind,
                decision=slurm_status.action,
                drained=slurm_status.drained,
            )
        self._logged = summary

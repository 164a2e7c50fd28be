"""The verdict on a node: which finding decides, and which status follows from all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.findings import Finding, Verdict
from holdfast.vocabulary import Severity, Status

FATAL = Finding(code="XID79", severity=Severity.FATAL, subject="GPU-3", detail="GPU 3 fell off")
WARN = Finding(code="IB_FLAP", severity=Severity.WARN, subject="mlx5_0/1", detail="")
INFO = Finding(code="UPTIME_LONG", severity=Severity.INFO, subject="node", detail="")
KILLED = Finding(code="XID45", severity=Severity.FATAL, subject="GPU-3", detail="", cause=False)


@pytest.mark.parametrize(
    ("findings", "blind", "status"),
    [
        ((), (), Status.OK),
        ((INFO,), (), Status.OK),
        ((), ("nvml",), Status.BLIND),
        ((INFO,), ("nvml",), Status.BLIND),
        ((INFO, WARN), ("nvml",), Status.SUSPECT),
        ((WARN, INFO), (), Status.SUSPECT),
        ((FATAL, WARN), ("nvml",), Status.BAD),
        ((INFO, FATAL), (), Status.BAD),
        ((KILLED,), (), Status.BAD),
    ],
)
def test_the_most_severe_finding_decides_the_status_and_only_then_a_silent_probe(
    findings: tuple[Finding, ...], blind: tuple[str, ...], status: Status
) -> None:
    assert Verdict(findings=findings, blind=blind).status is status


@pytest.mark.parametrize(
    ("findings", "worst"),
    [
        ((), None),
        ((INFO, FATAL, WARN), FATAL),
        ((WARN, replace(WARN, subject="mlx5_1/1")), WARN),
        ((KILLED, WARN), WARN),
        ((replace(FATAL, subject="GPU-4"), FATAL), replace(FATAL, subject="GPU-4")),
    ],
    ids=["none", "most severe", "the first of two", "a cause before a consequence", "first again"],
)
def test_the_worst_finding_is_the_most_severe_cause(
    findings: tuple[Finding, ...], worst: Finding | None
) -> None:
    assert Verdict(findings=findings).worst == worst


def test_a_finding_is_the_same_while_its_time_runs_out() -> None:
    """Otherwise each pass would count as a change."""
    assert replace(WARN, left_s=600.0) == replace(WARN, left_s=590.0)
    assert WARN.cause

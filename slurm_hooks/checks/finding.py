"""Builds a finding. Severity and action come from the fault catalogue, never from the check."""

from __future__ import annotations

from holdfast.faults import fault_of
from holdfast.findings import Finding


def finding(
    code: str,
    *,
    subject: str,
    detail: str,
    gpu: int | None = None,
    left_s: float | None = None,
) -> Finding:
    """The finding ``code`` with the severity and action that holdfast/faults/ gives it.

    ``detail`` becomes part of a drain's Reason: short, one line. ``left_s``: seconds until the
    finding clears by itself, if nothing new happens; None: it does not.
    """
    row = fault_of(code)
    return Finding(
        code=code,
        severity=row.severity,
        subject=subject,
        detail=" ".join(detail.split()),
        action=row.action,
        gpu=gpu,
        left_s=left_s,
    )

"""A finding as the fault catalogue has it: severity and action are never a check's own opinion."""

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
    """The finding ``code`` with the catalogue's severity and action."""
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

"""The fault catalogue: what each code means, its severity, and what must happen to the node.

One row for each code; the documentation and ``holdfast faults`` are generated from it. A new fault is a
new row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from holdfast.faults.gpu import GPU_FAULTS
from holdfast.faults.holdfast_itself import OWN_FAULTS
from holdfast.faults.host import HOST_FAULTS
from holdfast.faults.kernel import KERNEL_FAULTS
from holdfast.faults.network import NETWORK_FAULTS
from holdfast.faults.row import Fault
from holdfast.faults.storage import STORAGE_FAULTS
from holdfast.faults.sxids import SXIDS
from holdfast.faults.sxids import unknown as unknown_sxid
from holdfast.faults.xids import XIDS
from holdfast.faults.xids import unknown as unknown_xid
from holdfast.vocabulary import Action, FaultClass, Severity

__all__ = ["ALL_FAULTS", "FAULTS", "Fault", "fault_of", "is_known", "severity_of"]

ALL_FAULTS: tuple[Fault, ...] = (
    *GPU_FAULTS,
    *NETWORK_FAULTS,
    *STORAGE_FAULTS,
    *HOST_FAULTS,
    *KERNEL_FAULTS,
    *OWN_FAULTS,
    *XIDS,
    *SXIDS,
)
"""Every row, in the order in which they are shown."""

FAULTS: Mapping[str, Fault] = {row.code: row for row in ALL_FAULTS}
"""The rows by their codes."""

_NUMBER = re.compile(r"(S?)XID([0-9]{1,6})")


def is_known(code: str) -> bool:
    """True when the catalogue has a row of its own for the code."""
    return code in FAULTS


def fault_of(code: str) -> Fault:
    """The row of ``code``. A code without a row is a warning and never drains."""
    row = FAULTS.get(code)
    if row is not None:
        return row
    match = _NUMBER.fullmatch(code)
    if match:
        return (unknown_sxid if match[1] else unknown_xid)(int(match[2]))
    return Fault(
        code=code,
        title="a code of another version of Holdfast",
        severity=Severity.WARN,
        fault_class=FaultClass.HOLDFAST,
        action=Action.CONTACT_SUPPORT,
        drains=False,
        runbook="Look it up with the version of Holdfast that wrote it.",
        source="none",
    )


def severity_of(code: str) -> Severity:
    """The severity of a fault with this code if nothing else is known."""
    return fault_of(code).severity

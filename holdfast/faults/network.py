"""Faults of one kind: the network that jobs use."""

from __future__ import annotations

from holdfast.faults.row import Fault, row
from holdfast.vocabulary import Action, FaultClass, Severity

_FATAL, _WARN = Severity.FATAL, Severity.WARN

NETWORK_FAULTS: tuple[Fault, ...] = (
    row(
        "IB_DOWN", "an InfiniBand port is not active", (_FATAL, FaultClass.NETWORK, Action.WAIT, True),
        "Look at cable, transceiver and switch port. The node returns once the port is active.",
        "Linux sysfs-class-infiniband; NVSentinel",
    ),
    row(
        "IB_FLAP", "an InfiniBand port went down and up again",
        (_WARN, FaultClass.NETWORK, Action.WAIT, True),
        "Clean or replace cable and transceiver when one port does it more than once a day.",
        "NVIDIA cluster bring-up guide: link_downed",
    ),
)  # fmt: skip

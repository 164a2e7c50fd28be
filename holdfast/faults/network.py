"""Faults of one kind: the network that jobs use."""

from __future__ import annotations

from holdfast.faults.row import Fault, row
from holdfast.vocabulary import Action, FaultClass, Severity

_FATAL, _WARN, _INFO = Severity.FATAL, Severity.WARN, Severity.INFO

NETWORK_FAULTS: tuple[Fault, ...] = (
    row(
        "IB_DOWN", "an InfiniBand port is not active", (_FATAL, FaultClass.NETWORK, Action.WAIT, True),
        "Check cable, transceiver and switch port. The node returns to service once the port is active.",
        "Linux sysfs-class-infiniband; NVSentinel",
    ),
    row(
        "IB_FLAP", "an InfiniBand port went down and up again",
        (_WARN, FaultClass.NETWORK, Action.WAIT, True),
        "Clean or replace cable and transceiver if a port does so more than once a day.",
        "NVIDIA cluster bring-up guide: link_downed", moves_jobs=True,
    ),
    row(
        "IB_MISSING", "an InfiniBand card is missing or has another name",
        (_FATAL, FaultClass.NETWORK, Action.REBOOT, True),
        "Check lspci and the kernel log (mlx5_core). Reboot; if it is still missing, replace it. A "
        "card with another name breaks jobs that name it (NCCL_IB_HCA).",
        "NVSentinel: device gone in three polls",
    ),
    row(
        "IB_RATE", "an InfiniBand port is slower than expected",
        (_WARN, FaultClass.NETWORK, Action.WAIT, True),
        "Every rank waits for the slowest link. Reseat or replace cable and transceiver; compare "
        "with the switch port.", "gpud: H100 nodes have eight ports of 400 Gb/s", moves_jobs=True,
    ),
    row(
        "IB_BER", "an InfiniBand link has too many symbol errors",
        (_WARN, FaultClass.NETWORK, Action.WAIT, True),
        "Clean or replace cable and transceiver; the link is likely to go down.",
        "NVIDIA cluster bring-up guide: symbol BER above 1e-14", moves_jobs=True,
    ),
    row(
        "IB_BER_RISING", "an InfiniBand link has more symbol errors than usual",
        (_WARN, FaultClass.NETWORK, Action.WAIT, False),
        "Check cable and transceiver at the next maintenance.",
        "NVIDIA cluster bring-up guide: symbol BER above 5e-15",
    ),
    row(
        "IB_ERRORS", "the error counters of an InfiniBand port increase",
        (_WARN, FaultClass.NETWORK, Action.WAIT, False),
        "Compare with the switch port's counters: cable, transceiver or port.",
        "NVSentinel: rates of link recoveries, receive and integrity errors",
    ),
    row(
        "IB_FIRMWARE", "an InfiniBand card has another firmware than the others",
        (_INFO, FaultClass.NETWORK, Action.NONE, False),
        "Install one version on all cards at the next maintenance (mlxfwmanager).",
        "gcm check_iblink: a mismatch is a warning",
    ),
)  # fmt: skip

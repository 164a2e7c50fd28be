"""Faults of one kind: the machine around the GPUs."""

from __future__ import annotations

from holdfast.faults.row import OWN, Fault, row
from holdfast.vocabulary import Action, FaultClass, Severity

_WARN = Severity.WARN

HOST_FAULTS: tuple[Fault, ...] = (
    row(
        "CLOCK_SKEW", "the node's clock differs from slurmctld's",
        (_WARN, FaultClass.HOST, Action.WAIT, False),
        "Look at chrony or ntpd. Slurm's credentials fail at five minutes.", OWN,
    ),
)  # fmt: skip

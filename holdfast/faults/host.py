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
    row(
        "JOB_LEFTOVER", "a process of an ended job holds a GPU's memory",
        (_WARN, FaultClass.HOST, Action.WAIT, True),
        "The next job would find the memory taken. End the process, or have it ended: "
        "node.leftovers: kill. The node returns once the memory is free.",
        "gcm running_procs; Soperator alloc_gpus_busy",
    ),
    row(
        "JOB_UNKILLABLE", "a process of an ended job does not end by SIGKILL",
        (_WARN, FaultClass.HOST, Action.WAIT, True),
        "It sleeps in the kernel: look at /proc/PID/stack, the driver and the storage. The node "
        "returns once it is gone; where it stays, reboot.", "gcm running_procs_and_kill",
    ),
)  # fmt: skip

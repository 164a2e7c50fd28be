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
        "CLOCK_UNSYNCED", "nobody sets the kernel's clock",
        (Severity.INFO, FaultClass.HOST, Action.NONE, False),
        "Look at chronyd or ntpd: the clock will drift until CLOCK_SKEW is found.",
        "adjtimex(2): STA_UNSYNC",
    ),
    row(
        "MEMORY_MISSING", "the machine has less memory than it should",
        (_WARN, FaultClass.HOST, Action.REBOOT, True),
        "A DIMM has failed or is not seated. Reboot; where it stays so, replace it.",
        "azurehpc-health-checks: physical memory within 5 percent",
    ),
    row(
        "MEMORY_LOW", "hardly any memory is available", (_WARN, FaultClass.HOST, Action.WAIT, False),
        "The kernel is about to kill processes. Look at what takes it; left-over processes of ended "
        "jobs are a finding of their own.", "NHC check_hw_physmem_free",
    ),
    row(
        "LOAD_HIGH", "far more work than processors",
        (Severity.INFO, FaultClass.HOST, Action.NONE, False),
        "Mostly a job that starts too many threads. Look at the job.", "NHC check_ps_loadavg",
    ),
    row(
        "TASK_HUNG", "tasks sleep in the kernel for minutes",
        (_WARN, FaultClass.HOST, Action.REBOOT, False),
        "The detail says in which function: a filesystem that does not answer, or a driver. What "
        "waits there cannot be killed.", "gcm check_dstate; gpud os: D state for five minutes",
    ),
    row(
        "ZOMBIES", "dead processes that nobody collects",
        (Severity.INFO, FaultClass.HOST, Action.NONE, False),
        "Their parent is stuck or has no init above it. Look at the parent.", "gcm check zombies",
    ),
    row(
        "MODULE_MISSING", "a kernel module is not loaded that the node needs",
        (_WARN, FaultClass.DRIVER, Action.REBOOT, True),
        "modprobe it; dmesg says why it does not load (driver and kernel of different releases).",
        "gcm check-node check-module",
    ),
    row(
        "MODULE_ADVISED", "a kernel module is not loaded that makes things faster",
        (Severity.INFO, FaultClass.DRIVER, Action.NONE, False),
        "Without nvidia_peermem (or dma-buf) data between GPU and network passes through the host.",
        "gpud peermem",
    ),
    row(
        "FABRIC_MANAGER_DOWN", "NVIDIA Fabric Manager does not run",
        (_WARN, FaultClass.SWITCH, Action.WAIT, True),
        "Running jobs go on; new ones may not get NVLink. systemctl restart nvidia-fabricmanager; "
        "its log says why it ended.", "NVSentinel 883: down for 20 days, undetected",
    ),
    row(
        "SERVICE_DOWN", "a service of the node does not run",
        (_WARN, FaultClass.HOST, Action.WAIT, False),
        "Start it again (systemctl status UNIT).", "NHC check_ps_service",
    ),
    row(
        "SLURMD_SILENT", "slurmd does not answer on its own node",
        (_WARN, FaultClass.HOST, Action.WAIT, False),
        "Slurm takes the node down by itself. Look at slurmd's log and start it again.", OWN,
    ),
    row(
        "SLURMD_UNHEARD", "slurmctld has not spoken to slurmd for long",
        (_WARN, FaultClass.NETWORK, Action.WAIT, False),
        "Look at the network between them, and at the node's state in Slurm.", OWN,
    ),
    row(
        "JOB_LEFTOVER", "a process of an ended job holds a GPU's memory",
        (_WARN, FaultClass.HOST, Action.WAIT, True),
        "The next job would find the memory taken. End the process, or have it ended: "
        "node.leftovers: kill. The node returns once the memory is free.",
        "gcm running_procs; Soperator alloc_gpus_busy", by_users=True,
    ),
    row(
        "JOB_UNKILLABLE", "a process of an ended job does not end by SIGKILL",
        (_WARN, FaultClass.HOST, Action.WAIT, True),
        "It sleeps in the kernel: look at /proc/PID/stack, the driver and the storage. The node "
        "returns once it is gone; where it stays, reboot.", "gcm running_procs_and_kill",
        by_users=True,
    ),
)  # fmt: skip

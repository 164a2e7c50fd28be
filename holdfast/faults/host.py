"""Faults of one kind: the machine around the GPUs."""

from __future__ import annotations

from holdfast.faults.row import OWN, Fault, row
from holdfast.vocabulary import Action, FaultClass, Severity

_WARN = Severity.WARN

HOST_FAULTS: tuple[Fault, ...] = (
    row(
        "CLOCK_SKEW", "the node's clock differs from slurmctld's",
        (_WARN, FaultClass.HOST, Action.WAIT, False),
        "Check chronyd or ntpd. Slurm's credentials fail at a difference of five minutes.", OWN,
    ),
    row(
        "CLOCK_UNSYNCED", "the kernel's clock is not synchronized",
        (Severity.INFO, FaultClass.HOST, Action.NONE, False),
        "Check chronyd or ntpd: the clock drifts, in the end to CLOCK_SKEW.",
        "adjtimex(2): STA_UNSYNC",
    ),
    row(
        "MEMORY_MISSING", "the machine has less memory than expected",
        (_WARN, FaultClass.HOST, Action.REBOOT, True),
        "A DIMM has failed or is not seated correctly. Reboot; if the fault remains, replace it.",
        "azurehpc-health-checks: physical memory within 5 percent",
    ),
    row(
        "MEMORY_LOW", "hardly any memory is available", (_WARN, FaultClass.HOST, Action.WAIT, False),
        "The kernel is about to kill processes. Find out what uses the memory; JOB_LEFTOVER reports processes "
        "of ended jobs.", "NHC check_hw_physmem_free",
    ),
    row(
        "LOAD_HIGH", "the load is far above the number of processors",
        (Severity.INFO, FaultClass.HOST, Action.NONE, False),
        "Usually a job that starts too many threads. Check the job.", "NHC check_ps_loadavg",
    ),
    row(
        "TASK_HUNG", "tasks are blocked in the kernel for minutes",
        (_WARN, FaultClass.HOST, Action.REBOOT, False),
        "The detail names the kernel function: a filesystem that does not respond, or a driver. Such tasks "
        "cannot be killed.", "gcm check_dstate; gpud os: D state for five minutes",
    ),
    row(
        "ZOMBIES", "zombie processes that are not reaped",
        (Severity.INFO, FaultClass.HOST, Action.NONE, False),
        "Their parent process does not wait for them. Check the parent.", "gcm check zombies",
    ),
    row(
        "MODULE_MISSING", "a required kernel module is not loaded",
        (_WARN, FaultClass.DRIVER, Action.REBOOT, True),
        "Load it with modprobe; if that fails, dmesg has the cause (driver and kernel of different releases).",
        "gcm check-node check-module",
    ),
    row(
        "MODULE_ADVISED", "a recommended kernel module is not loaded",
        (Severity.INFO, FaultClass.DRIVER, Action.NONE, False),
        "Without nvidia_peermem (or dma-buf), data between GPU and network passes through host memory.",
        "gpud peermem",
    ),
    row(
        "FABRIC_MANAGER_DOWN", "NVIDIA Fabric Manager is not running",
        (_WARN, FaultClass.SWITCH, Action.WAIT, True),
        "Running jobs go on; new ones may not get NVLink. systemctl restart nvidia-fabricmanager; its log has "
        "the cause.", "NVSentinel 883: down for 20 days, undetected",
    ),
    row(
        "SERVICE_DOWN", "a service of the node is not running",
        (_WARN, FaultClass.HOST, Action.WAIT, False),
        "Restart it (systemctl status UNIT, systemctl restart UNIT).", "NHC check_ps_service",
    ),
    row(
        "SLURMD_SILENT", "slurmd does not answer on its own node",
        (_WARN, FaultClass.HOST, Action.WAIT, False),
        "Slurm sets the node DOWN by itself. Check slurmd's log and restart it.", OWN,
    ),
    row(
        "SLURMD_UNHEARD", "slurmd has had no contact with slurmctld for a long time",
        (_WARN, FaultClass.NETWORK, Action.WAIT, False),
        "Check the network between them, and the node's state in Slurm.", OWN,
    ),
    row(
        "NODE_DEATH", "a node gives no sign of life to any of its neighbours",
        (Severity.FATAL, FaultClass.HOST, Action.REBOOT, True),
        "It lost power or its network. Check its power supply, console and cable. It returns to service "
        "by itself after its boot.", OWN,
    ),
    row(
        "STEPD_KILLED", "the slurmstepd of a job's step was killed",
        (_WARN, FaultClass.HOST, Action.NONE, False),
        "Its tasks went on without it, and srun would wait without end. holdfast run requeues the job; end any other "
        "step with scancel JOB.STEP. The kernel log tells whether memory ran out.", OWN,
    ),
    row(
        "NODE_TESTED", "a node that the job excludes has passed an inspection",
        (Severity.INFO, FaultClass.HOLDFAST, Action.NONE, False),
        "Nothing to do: where holdfast run had excluded the node, the job may use it again.", OWN,
    ),
    row(
        "JOB_LEFTOVER", "a process of an ended job holds a GPU's memory",
        (_WARN, FaultClass.HOST, Action.WAIT, True),
        "The next job would not get that memory. Kill the process, or set node.leftovers: kill. The node "
        "returns to service once the memory is free.",
        "gcm running_procs; Soperator alloc_gpus_busy", by_users=True,
    ),
    row(
        "JOB_UNKILLABLE", "a process of an ended job does not end by SIGKILL",
        (_WARN, FaultClass.HOST, Action.WAIT, True),
        "It is blocked in the kernel: check /proc/PID/stack, the driver and the storage. The node returns to "
        "service once the process is gone; otherwise reboot.", "gcm running_procs_and_kill",
        by_users=True,
    ),
)  # fmt: skip

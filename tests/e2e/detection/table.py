"""The finding that each kind of fault of the sandbox must cause: a literal table, kept by hand.

A kind is in ``CASES``, or in ``NOT_JUDGED`` with a reason; a unit test fails for a kind that is in
neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class How(Enum):
    """How a fault is detected, which determines the time limit."""

    EVENT = "the kernel log wakes the agent"
    POLLED = "a pass over the probes detects it"


class Ends(Enum):
    """How the finding clears."""

    HEALED = "when the fault is healed"
    PERSON = "when a person resumes the node"
    REBOOT = "with the next boot, even after the repair"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One fault, as typed in a command, and the finding that it must cause.

    ``code``, ``severity``, ``action``, ``cause``, ``check``: fields of the finding.
    ``drains``    the node is drained, and ``scontrol show node`` names ``code``.
    ``passes``    how many passes must see it before the finding opens (``open_after``).
    ``also``      codes of other findings that must open too.
    ``watched_s`` how long a rate has to be observed.
    ``restart_agent``  kill the agent after the injection and after the repair: it reads values that
                  cannot change while a driver is loaded only once.
    """

    words: str
    code: str
    severity: str
    action: str
    check: str
    how: How = How.POLLED
    cause: bool = True
    drains: bool = True
    passes: int = 1
    also: tuple[str, ...] = ()
    watched_s: float = 0.0
    ends: Ends = Ends.HEALED
    restart_agent: bool = False

    @property
    def kind(self) -> str:
        return self.words.split()[0]


def _xid(words: str, number: int, action: str, *also: str) -> Case:
    """A fatal Xid: in the verdict at once, and in the drain's reason."""
    return Case(
        words=words,
        code=f"XID{number}",
        severity="fatal",
        action=action,
        check="gpu_xid",
        how=How.EVENT,
        also=also,
    )


_GPU = (
    _xid("xid 79 --gpu 3", 79, "reboot"),
    _xid("xid 48 --gpu 1", 48, "reset-gpu"),
    _xid("xid 95 --gpu 2", 95, "reset-gpu"),
    _xid("xid 119 --gpu 0", 119, "reset-gpu"),
    _xid("xid 140 --gpu 7", 140, "reset-gpu"),
    Case(
        words="xid 31 --gpu 1", code="XID31", severity="info", action="restart-job", check="gpu_xid",
        how=How.EVENT, drains=False, ends=Ends.REBOOT,
    ),
    Case(
        words="xid 45 --gpu 1", code="XID45", severity="info", action="none", check="gpu_xid", how=How.EVENT,
        cause=False, drains=False, ends=Ends.REBOOT,
    ),
    _xid("gpu-lost --gpu 5", 79, "reboot", "GPU_LOST"),
    _xid("ecc --gpu 4", 48, "reset-gpu", "ECC_UNCORRECTED", "GPU_RECOVERY_ACTION"),
    _xid("row-remap-pending --gpu 2", 63, "reset-gpu", "ROW_REMAP_PENDING"),
    _xid("row-remap-failed --gpu 2", 64, "reset-gpu", "ROW_REMAP_FAILED"),
    _xid("recovery-action reset --gpu 6", 154, "reset-gpu", "GPU_RECOVERY_ACTION"),
    _xid("recovery-action reboot --gpu 6", 154, "reboot", "GPU_RECOVERY_ACTION"),
    _xid("nvlink-down --gpu 1 --link 4", 74, "reset-gpu", "NVLINK_DOWN"),
    Case(
        words="gpu-count 7", code="GPU_COUNT", severity="fatal", action="reboot", check="gpu_count", passes=2,
    ),
    Case(words="thermal --gpu 4", code="GPU_THERMAL", severity="warn", action="wait", check="gpu_thermal", passes=3),
    Case(
        words="power-brake", code="GPU_POWER_BRAKE", severity="warn", action="wait", check="gpu_power_brake", passes=3,
    ),
    Case(
        words="pcie-width --width 8", code="PCIE_WIDTH", severity="warn", action="reboot", check="pcie_link",
        drains=False, passes=2,
    ),
    Case(
        words="pcie-speed --gpu 1", code="PCIE_SPEED", severity="warn", action="reboot", check="gpu_pcie",
        drains=False, passes=3,
    ),
    Case(
        words="pcie-replays --gpu 1", code="PCIE_REPLAYS", severity="warn", action="reboot", check="gpu_pcie",
        drains=False, passes=3, watched_s=75.0,
    ),
    Case(
        words="nvlink-errors --gpu 1", code="NVLINK_ERRORS", severity="warn", action="reset-gpu",
        check="gpu_nvlink_errors", passes=2, watched_s=15.0,
    ),
    Case(words="sram-threshold --gpu 1", code="SRAM_THRESHOLD", severity="warn", action="replace", check="gpu_ecc"),
    Case(
        words="row-remap-low --gpu 1", code="ROW_REMAP_LOW", severity="warn", action="contact-support",
        check="gpu_row_remap", drains=False,
    ),
    Case(
        words="repair-pending --gpu 1", code="GPU_REPAIR_PENDING", severity="warn", action="reset-gpu",
        check="gpu_row_remap",
    ),
    Case(
        words="fabric failed", code="GPU_FABRIC", severity="fatal", action="reset-gpu", check="gpu_fabric", passes=2,
    ),
    Case(
        words="fabric not-started", code="GPU_FABRIC", severity="fatal", action="wait", check="gpu_fabric", passes=2,
    ),
    Case(
        words="gpu-mode ecc-off --gpu 1", code="GPU_MODE", severity="warn", action="wait", check="gpu_modes",
        drains=False, passes=2,
    ),
    Case(
        words="gpu-mode compute-prohibited --gpu 2", code="GPU_PROHIBITED", severity="fatal", action="wait",
        check="gpu_modes", passes=2,
    ),
    Case(
        words="vbios-differs --gpu 3", code="GPU_VERSIONS", severity="warn", action="contact-support",
        check="gpu_versions", drains=False, passes=2, restart_agent=True,
    ),
    Case(
        words="nvml-error handle --gpu 2", code="GPU_UNREADABLE", severity="fatal", action="reboot",
        check="gpu_errors", passes=3, ends=Ends.REBOOT,
    ),
    Case(
        words="nvml-error ecc --gpu 3", code="GPU_CALLS_FAIL", severity="warn", action="none", check="gpu_errors",
        drains=False, passes=3,
    ),
    Case(
        words="nvml-slow --ms 1500", code="DRIVER_SUSPECT", severity="warn", action="wait", check="driver_hung",
        drains=False, passes=3,
    ),
    Case(words="nvml-hung", code="DRIVER_HUNG", severity="fatal", action="wait", check="driver_hung", passes=3),
    Case(words="nvml-unkillable", code="DRIVER_HUNG", severity="fatal", action="reboot", check="driver_hung", passes=4),
)  # fmt: skip

_REST = (
    Case(words="ib-down --hca mlx5_3", code="IB_DOWN", severity="fatal", action="wait", check="infiniband", passes=3),
    Case(
        words="link-flap --hca mlx5_2 --times 4", code="IB_FLAP", severity="warn", action="wait", check="infiniband",
        passes=3, ends=Ends.PERSON,
    ),
    Case(
        words="mount-gone /mnt/inference", code="MOUNT_GONE", severity="fatal", action="wait", check="mounts",
        passes=2,
    ),
    Case(
        words="mount-hung /mnt/inference", code="MOUNT_HUNG", severity="fatal", action="wait", check="mounts",
        passes=3,
    ),
    Case(
        words="mount-full /mnt/inference", code="MOUNT_FULL", severity="warn", action="wait", check="mounts",
        drains=False, passes=2,
    ),
    Case(
        words="mount-read-only /mnt/inference", code="MOUNT_READ_ONLY", severity="fatal", action="wait",
        check="mounts", passes=2,
    ),
    Case(
        words="clock-skew --seconds 30", code="CLOCK_SKEW", severity="warn", action="wait", check="clock",
        drains=False, passes=7,
    ),
)  # fmt: skip


def _logged(
    what: str, code: str, check: str, action: str, severity: str = "fatal", **more: Any
) -> Case:
    """A fault that only the kernel log reports."""
    return Case(
        words=f"kernel-log {what}",
        code=code,
        severity=severity,
        action=action,
        check=check,
        how=How.EVENT,
        **{
            "drains": severity == "fatal",
            "ends": Ends.HEALED if severity == "fatal" else Ends.REBOOT,
            **more,
        },
    )


_LOG = (
    Case(
        words="sxid 20034", code="SXID20034", severity="fatal", action="reset-gpu", check="nvswitch_sxid",
        how=How.EVENT,
    ),
    Case(
        words="sxid 23001 --switch 2", code="SXID23001", severity="fatal", action="reboot", check="nvswitch_sxid",
        how=How.EVENT, ends=Ends.REBOOT,
    ),
    Case(
        words="sxid 12028 --severity nonfatal", code="SXID12028", severity="warn", action="restart-job",
        check="nvswitch_sxid", how=How.EVENT, drains=False,
    ),
    _logged("aer-fatal", "AER_FATAL", "kernel_pcie_aer", "reboot"),
    _logged("aer-nonfatal", "AER_NONFATAL", "kernel_pcie_aer", "none", "warn"),
    _logged("aer-corrected", "AER_CORRECTED", "kernel_pcie_aer", "none", "warn"),
    _logged("dimm-corrected", "DIMM_CORRECTED", "kernel_mce", "contact-support", "warn"),
    _logged("dimm-uncorrected", "DIMM_UNCORRECTED", "kernel_mce", "reboot"),
    _logged("mce", "MCE_UNCORRECTED", "kernel_mce", "reboot"),
    _logged("nvme-timeout", "NVME_TIMEOUT", "kernel_nvme", "none", "warn"),
    _logged("nvme-failed", "NVME_FAILED", "kernel_nvme", "reboot"),
    _logged("disk-error", "DISK_IO_ERROR", "kernel_nvme", "none", "warn"),
    _logged("fs-shutdown", "FS_SHUTDOWN", "kernel_fs", "reboot"),
    _logged("fs-error", "FS_ERROR", "kernel_fs", "none", "warn"),
    _logged("nfs-lost", "FS_SERVER_LOST", "kernel_fs", "wait", "warn"),
    _logged("oom-job", "OOM_JOB", "kernel_oom", "restart-job", "info"),
    _logged("oom-system", "OOM_SYSTEM", "kernel_oom", "none", "warn"),
    _logged("hung-task", "HUNG_TASK", "kernel_hung_task", "none", "warn"),
    _logged("hung-driver", "DRIVER_TASK_HUNG", "kernel_driver", "reboot", "warn"),
    _logged("lockup", "CPU_LOCKUP", "kernel_hung_task", "reboot", "warn"),
    _logged("oops", "KERNEL_OOPS", "kernel_hung_task", "reboot", "warn", drains=True, ends=Ends.HEALED),
    _logged("mlx5-health", "MLX5_HEALTH", "kernel_mlx5", "reboot"),
    _logged("mlx5-command", "MLX5_COMMAND", "kernel_mlx5", "reboot"),
    _logged("mlx5-module", "MLX5_MODULE", "kernel_mlx5", "none", "warn"),
    _logged("gpu-init", "GPU_INIT_FAILED", "kernel_driver", "reboot", "warn"),
)  # fmt: skip

_HOST = (
    Case(
        words="gpu-off-bus --gpu 2", code="GPU_COUNT", severity="fatal", action="reboot", check="gpu_count", passes=2,
        also=("PCI_GPU_GONE",),
    ),
    Case(words="nvswitch-gone", code="NVSWITCH_GONE", severity="fatal", action="reboot", check="pci_devices", passes=2),
    Case(words="hca-gone", code="IB_MISSING", severity="fatal", action="reboot", check="infiniband", passes=3),
    Case(words="ib-rate", code="IB_RATE", severity="warn", action="wait", check="infiniband", passes=3),
    Case(
        words="ib-errors", code="IB_ERRORS", severity="warn", action="wait", check="infiniband_errors",
        passes=2, also=("IB_BER",), ends=Ends.PERSON,
    ),
    Case(
        words="pcie-aer corrected", code="PCIE_AER", severity="warn", action="wait", check="pcie_aer", drains=False,
        passes=2,
    ),
    Case(
        words="pcie-aer uncorrected", code="PCIE_AER", severity="warn", action="wait", check="pcie_aer",
        drains=False, passes=2,
    ),
    Case(words="pcie-aer fatal", code="PCIE_AER_FATAL", severity="fatal", action="reboot", check="pcie_aer", passes=2),
    Case(
        words="module-missing nvidia", code="MODULE_MISSING", severity="warn", action="reboot",
        check="kernel_modules", passes=6, ends=Ends.REBOOT,
    ),
    Case(words="disk-full", code="DISK_FULL", severity="warn", action="wait", check="disks", passes=2),
    Case(
        words="disk-read-only", code="DISK_READ_ONLY", severity="fatal", action="reboot", check="disks", passes=2,
        ends=Ends.REBOOT,
    ),
    Case(
        words="service-stopped fabricmanager", code="FABRIC_MANAGER_DOWN", severity="warn", action="wait",
        check="services", passes=6,
    ),
    Case(
        words="slurmd-killed", code="SLURMD_SILENT", severity="warn", action="wait", check="slurmd", drains=False,
        passes=6,
    ),
)  # fmt: skip

CASES = (*_GPU, *_REST, *_LOG, *_HOST)

NOT_REPAIRED = {
    "hca-gone": "IB_MISSING",
    "nvswitch-gone": "NVSWITCH_GONE",
    "ib-down --hca mlx5_6": "IB_DOWN",  # a port that no other test has taken down
    "gpu-off-bus --gpu 2": "GPU_COUNT",
    "gpu-count 7": "GPU_COUNT",
    "gpu-lost --gpu 5": "GPU_LOST",
    "row-remap-failed --gpu 2": "ROW_REMAP_FAILED",
    "service-stopped fabricmanager": "FABRIC_MANAGER_DOWN",
}
"""Faults that a power cycle does not repair, and the code that stays."""

NOT_JUDGED: Mapping[str, str] = {
    "gpu-process": "used memory is not a fault; job_leftovers checks it at a job's end (tests of job health)",
    "kernel-line": "any line; what users can make the kernel log is not a fault (tests/hostile)",
    "power-off": "no agent runs; slurmctld reports NOT_RESPONDING",
    "power-cycle": "other faults stay; the node's jobs are affected (test_power_cycle)",
    "network-cut": "the node is healthy; slurmctld reports NOT_RESPONDING, and the agent cannot reach it",
    "run-full": "affects no job; verdicts have reserved space (tests/hostile/test_run_folder)",
    "agent-killed": "the health check restarts it (test_faults_show)",
    "slurmctld-stopped": "a fault of the cluster, not of a node: agents report that Slurm is not available",
    "slurmctld-killed": "a fault of the cluster, not of a node",
    "slurmctld-restored": "a fault of the cluster, not of a node (test_slurmctld_restored)",
    "state-full": "a fault of the agent, not of the node (test_state_disk_unwritable)",
    "state-read-only": "a fault of the agent, not of the node (test_state_disk_unwritable)",
    "state-hung": "a fault of the agent, not of the node (test_state_disk_unwritable)",
    "munge-down": "Slurm is not available; the drain follows later (test_munge_down)",
    "slurmdbd-down": "a fault of the cluster, not of a node (test_concurrent_drain)",
    "api-server-down": "a fault of the cluster, not of a node",
    "bridge-killed": "a fault of the cluster, not of a node",
}
"""Kinds that no check of the agent covers, and why."""

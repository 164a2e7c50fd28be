"""What each kind of fault of the sandbox must lead to on a node: a literal table, kept by hand.

A kind is in ``CASES``, or in ``NOT_JUDGED`` with the reason; a unit test fails for one that is in
neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class How(Enum):
    """Where the word comes from, and how long it may take beside one interval's half second."""

    EVENT = "the kernel log wakes the agent"
    POLLED = "a pass over the probes finds it"


class Ends(Enum):
    """How the finding goes away."""

    HEALED = "with what the sandbox mends"
    PERSON = "when a person puts the node back into service"
    REBOOT = "with the next boot, whatever was mended before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One fault, as a person says it, and the finding that it must lead to.

    ``code``, ``severity``, ``action``, ``cause``, ``check``: the finding's own.
    ``drains``    the node leaves service, and ``scontrol show node`` names ``code``.
    ``passes``    that must see it before it counts (``open_after``).
    ``also``      codes of other findings that must come with it.
    ``watched_s`` how long a rate has to be watched before it is one.
    ``afresh``    the agent is killed after the injection and after the mending: it reads what never
                  changes while a driver is loaded once only.
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
    afresh: bool = False

    @property
    def kind(self) -> str:
        return self.words.split()[0]


def _xid(words: str, number: int, action: str, *also: str) -> Case:
    """A fatal Xid: at once in the verdict, and the drain's reason."""
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
        check="gpu_versions", drains=False, passes=2, afresh=True,
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


def _told(
    what: str, code: str, check: str, action: str, severity: str = "fatal", **more: Any
) -> Case:
    """A fault that the kernel log alone tells of."""
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
    _told("aer-fatal", "AER_FATAL", "kernel_pcie_aer", "reboot"),
    _told("aer-nonfatal", "AER_NONFATAL", "kernel_pcie_aer", "none", "warn"),
    _told("aer-corrected", "AER_CORRECTED", "kernel_pcie_aer", "none", "warn"),
    _told("dimm-corrected", "DIMM_CORRECTED", "kernel_mce", "contact-support", "warn"),
    _told("dimm-uncorrected", "DIMM_UNCORRECTED", "kernel_mce", "reboot"),
    _told("mce", "MCE_UNCORRECTED", "kernel_mce", "reboot"),
    _told("nvme-timeout", "NVME_TIMEOUT", "kernel_nvme", "none", "warn"),
    _told("nvme-failed", "NVME_FAILED", "kernel_nvme", "reboot"),
    _told("disk-error", "DISK_IO_ERROR", "kernel_nvme", "none", "warn"),
    _told("fs-shutdown", "FS_SHUTDOWN", "kernel_fs", "reboot"),
    _told("fs-error", "FS_ERROR", "kernel_fs", "none", "warn"),
    _told("nfs-lost", "FS_SERVER_LOST", "kernel_fs", "wait", "warn"),
    _told("oom-job", "OOM_JOB", "kernel_oom", "restart-job", "info"),
    _told("oom-system", "OOM_SYSTEM", "kernel_oom", "none", "warn"),
    _told("hung-task", "HUNG_TASK", "kernel_hung_task", "none", "warn"),
    _told("hung-driver", "DRIVER_TASK_HUNG", "kernel_driver", "reboot", "warn"),
    _told("lockup", "CPU_LOCKUP", "kernel_hung_task", "reboot", "warn"),
    _told("oops", "KERNEL_OOPS", "kernel_hung_task", "reboot", "warn", drains=True, ends=Ends.HEALED),
    _told("mlx5-health", "MLX5_HEALTH", "kernel_mlx5", "reboot"),
    _told("mlx5-command", "MLX5_COMMAND", "kernel_mlx5", "reboot"),
    _told("mlx5-module", "MLX5_MODULE", "kernel_mlx5", "none", "warn"),
    _told("gpu-init", "GPU_INIT_FAILED", "kernel_driver", "reboot", "warn"),
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

NOT_MENDED = {
    "hca-gone": "IB_MISSING",
    "nvswitch-gone": "NVSWITCH_GONE",
    "ib-down --hca mlx5_6": "IB_DOWN",  # a port that no other test took down today
    "gpu-off-bus --gpu 2": "GPU_COUNT",
    "gpu-count 7": "GPU_COUNT",
    "gpu-lost --gpu 5": "GPU_LOST",
    "row-remap-failed --gpu 2": "ROW_REMAP_FAILED",
    "service-stopped fabricmanager": "FABRIC_MANAGER_DOWN",
}
"""Faults that a power cycle alone does not mend, and what is still there after it."""

NOT_JUDGED: Mapping[str, str] = {
    "gpu-process": "memory in use is no fault; job_leftovers judges it at a job's end (tests of job health)",
    "kernel-line": "any line at all; what users can bring the kernel to write is no fault (tests/hostile)",
    "power-off": "nobody on the node is left to look; slurmctld itself says NOT_RESPONDING",
    "power-cycle": "what was broken stays broken; the node's jobs notice (test_power_cycle)",
    "network-cut": "the node itself is well; slurmctld says NOT_RESPONDING, and the agent cannot reach it",
    "run-full": "who fills it harms no job; verdicts have room of their own (tests/hostile/test_run_folder)",
    "agent-killed": "the health check starts another one (test_faults_show)",
    "slurmctld-stopped": "of the cluster, not of a node: an agent says that Slurm was not asked",
    "slurmctld-killed": "of the cluster, not of a node",
    "slurmctld-restored": "of the cluster, not of a node (test_slurmctld_restored)",
    "state-full": "of the agent, not of the machine (test_state_folder)",
    "state-read-only": "of the agent, not of the machine (test_state_folder)",
    "state-hung": "of the agent, not of the machine (test_state_folder)",
    "munge-down": "Slurm cannot be asked; the drain follows once it is back (test_state_folder)",
    "slurmdbd-down": "of the cluster, not of a node (test_overtaken)",
    "api-server-down": "of the cluster, not of a node",
    "bridge-killed": "of the cluster, not of a node",
}
"""Kinds that no check of a node's agent judges, and why."""

"""Faults that are active together while checks are switched off: literal tables, kept by hand."""

from __future__ import annotations

from collections.abc import Mapping

TOGETHER: Mapping[str, tuple[str, ...]] = {
    "worker-0": (
        "xid 48 --gpu 0", "row-remap-low --gpu 1", "nvlink-down --gpu 2", "nvlink-errors --gpu 3",
        "fabric failed", "thermal --gpu 4", "pcie-speed --gpu 5", "gpu-mode ecc-off --gpu 6",
        "nvml-error ecc --gpu 7", "pcie-width --width 8 --gpu 1", "ib-down", "mount-gone /mnt/inference",
    ),
    "worker-1": ("nvml-hung", "slurmd-killed"),
    "worker-2": (
        "gpu-lost --gpu 1", "gpu-count 7", "power-brake", "nvswitch-gone", "pcie-aer fatal --gpu 3",
        "vbios-differs --gpu 3",
    ),
    "worker-3": (
        "clock-skew --seconds 30", "disk-full", "module-missing nvidia", "ib-errors",
        "service-stopped fabricmanager", "sxid 20034", "kernel-log aer-fatal", "kernel-log mce",
        "kernel-log nvme-failed", "kernel-log fs-shutdown", "kernel-log oom-system", "kernel-log oops",
        "kernel-log hung-driver", "kernel-log mlx5-health",
    ),
}  # fmt: skip
"""Node → its faults."""

SWITCHED = frozenset(
    {
        "gpu_xid", "gpu_lost", "gpu_count", "gpu_recovery", "gpu_row_remap", "gpu_ecc", "gpu_nvlink",
        "gpu_nvlink_errors", "gpu_fabric", "gpu_thermal", "gpu_power_brake", "gpu_pcie", "gpu_modes",
        "gpu_versions", "gpu_errors", "pcie_link", "driver_hung", "mounts", "infiniband", "clock", "probe_blind",
        "slurmd", "pci_devices", "pcie_aer", "disks", "kernel_modules", "infiniband_errors", "services",
        "nvswitch_sxid", "kernel_driver", "kernel_pcie_aer", "kernel_mce", "kernel_nvme", "kernel_fs", "kernel_oom",
        "kernel_hung_task", "kernel_mlx5",
    }
)  # fmt: skip
"""Checks with findings for ``TOGETHER``."""

OF_THE_MACHINE = ("cpu_load", "clock_sync", "memory")
"""Checks of the host under the sandbox, which may be busy: switched off."""

NOT_SWITCHED: Mapping[str, str] = {
    **dict.fromkeys(OF_THE_MACHINE, "checks the host under the sandbox"),
    "tasks": "checks the host under the sandbox too",
    "dcgm": "there is no DCGM in the sandbox",
    "infiniband_ber": "there is no mlxlink in the sandbox",
    "agent_state": "checks the agent's own disk and queries (test_state_disk_unwritable)",
    "job_leftovers": "reports at a job's end (tests of job health)",
    "infiniband_firmware": "no kind of fault changes a card's firmware",
    "kmsg": "no kind of fault loses kernel records (unit tests of the probe)",
}
"""Checks without findings for ``TOGETHER``, and why."""

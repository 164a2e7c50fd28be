"""Faults of one kind: the kernel log without the NVIDIA driver's numbers: PCIe, memory, disks, filesystems,
tasks, network adapters. The checks set how many of a kind are too many (slurm_hooks/checks/kernel_*.py).
"""

from __future__ import annotations

from holdfast.faults.row import OWN, Fault, row
from holdfast.vocabulary import Action, FaultClass, Severity

_FATAL, _WARN, _INFO = Severity.FATAL, Severity.WARN, Severity.INFO
_AER = "Linux Documentation/PCI/pcieaer-howto.rst"
_MCE = "Linux Documentation/arch/x86/x86_64/machinecheck.rst; mcelog.conf"
_NPD = "Linux; node-problem-detector kernel-monitor"

KERNEL_FAULTS: tuple[Fault, ...] = (
    # PCIe
    row(
        "AER_FATAL", "fatal PCIe error: the link is unreliable",
        (_FATAL, FaultClass.LINK, Action.REBOOT, True),
        "The detail names port and error; lspci -tv shows which GPU, NVMe or adapter is below it. Reboot. "
        "If the same port fails again: reseat or replace board or riser.", f"{_AER}; gcm",
    ),
    row(
        "AER_NONFATAL", "uncorrected PCIe errors: transactions were lost, the link works",
        (_WARN, FaultClass.LINK, Action.NONE, False),
        "Find the device below the port, and check whether a job failed then. If it repeats: as AER_FATAL.",
        f"{_AER}; gcm",
    ),
    row(
        "AER_CORRECTED", "many corrected PCIe errors",
        (_WARN, FaultClass.LINK, Action.NONE, False),
        "No data is lost, but the link retransmits: bad contact or riser. Compare with other nodes.",
        f"{_AER}; gcm",
    ),
    row(
        "GPU_INIT_FAILED", "the driver could not initialise a GPU",
        (_WARN, FaultClass.GPU, Action.REBOOT, False),
        "NVML does not list the GPU then (GPU_COUNT). Reboot; if the fault remains, request a replacement.",
        "open-gpu-kernel-modules: RmInitAdapter",
    ),
    # CPU and memory
    row(
        "MCE_UNCORRECTED", "uncorrected machine check of a CPU",
        (_FATAL, FaultClass.HOST, Action.REBOOT, True),
        "Reboot, read the BMC's event log. A second one on the same CPU or DIMM: request a replacement.",
        f"{_MCE}; uncorrected 1 / 24h",
    ),
    row(
        "MCE_BEFORE_BOOT", "an uncorrected machine check from before this boot",
        (_WARN, FaultClass.HOST, Action.NONE, False),
        "It may be why the node rebooted: read the BMC's event log. Some firmware logs one at each boot.",
        _MCE,
    ),
    row(
        "MCE_CORRECTED", "many corrected machine checks",
        (_WARN, FaultClass.HOST, Action.NONE, False),
        "Find the CPU or DIMM with ras-mc-ctl --errors or mcelog, and plan its replacement.", _MCE,
    ),
    row(
        "DIMM_UNCORRECTED", "uncorrected error of a memory module",
        (_FATAL, FaultClass.HOST, Action.REBOOT, True),
        "The process with that page was killed or has wrong data. Reboot; replace the DIMM in the detail.",
        f"{_MCE}; uncorrected 1 / 24h",
    ),
    row(
        "DIMM_CORRECTED", "many corrected errors of a memory module",
        (_WARN, FaultClass.HOST, Action.CONTACT_SUPPORT, False),
        "No data is lost yet. Plan the replacement of the DIMM in the detail.",
        f"{_MCE}; corrected 10 / 24h",
    ),
    # disks and filesystems
    row(
        "NVME_FAILED", "the kernel disabled an NVMe controller", (_FATAL, FaultClass.STORAGE, Action.REBOOT, True),
        "Its filesystems are unavailable until a reboot. If it happens again: replace the drive.",
        "Linux drivers/nvme; gpud",
    ),
    row(
        "NVME_TIMEOUT", "requests to an NVMe drive timed out", (_WARN, FaultClass.STORAGE, Action.NONE, False),
        "smartctl -a and nvme smart-log show its wear; also check for PCIe errors of its port.",
        "Linux drivers/nvme; gpud",
    ),
    row(
        "DISK_IO_ERROR", "reads or writes of a disk failed", (_WARN, FaultClass.STORAGE, Action.NONE, False),
        "Check it with smartctl -a; move its data. Jobs get I/O errors on it.",
        "gcm (I/O error, dev nvme); node-problem-detector",
    ),
    row(
        "FS_SHUTDOWN", "a filesystem shut itself down or became read-only",
        (_FATAL, FaultClass.STORAGE, Action.REBOOT, True),
        "Look for errors of the disk just before it. Reboot, and check it (fsck, xfs_repair) before jobs write to it.",
        "node-problem-detector (FilesystemIsReadOnly, XfsHasShutDown)",
    ),
    row(
        "FS_SHUTDOWN_UNCONFIRMED", "a filesystem that the node does not mount shut itself down",
        (_WARN, FaultClass.STORAGE, Action.NONE, False),
        "Only the kernel log reports it: usually a damaged image that a user mounted in his own mount namespace. "
        "If it is a disk of the node that could not be mounted: check it (fsck, xfs_repair).", OWN,
    ),
    row(
        "FS_ERROR", "a filesystem reported errors in its metadata", (_WARN, FaultClass.STORAGE, Action.NONE, False),
        "Plan a check of it (fsck, xfs_repair) once the node is empty.", _NPD,
    ),
    row(
        "FS_SERVER_LOST", "the server of a filesystem does not answer",
        (_WARN, FaultClass.STORAGE, Action.WAIT, False),
        "If other nodes report it too, it is the server or its network. Tasks that use it wait; MOUNT_HUNG shows "
        "whether this node still waits.", "Linux NFS client; Lustre operations manual",
    ),
    row(
        "FS_EVICTED", "a Lustre server evicted this client", (_WARN, FaultClass.STORAGE, Action.NONE, False),
        "Operations in progress failed: the job may have lost writes. Check the network between them.",
        "Lustre operations manual",
    ),
    # tasks
    row(
        "OOM_JOB", "a job used up its memory limit", (_INFO, FaultClass.APPLICATION, Action.RESTART_JOB, False),
        "The job requested too little memory (--mem) or leaks memory. The node is not at fault.",
        "Linux memory cgroups",
    ),
    row(
        "OOM_SYSTEM", "the node ran out of memory and the kernel killed tasks",
        (_WARN, FaultClass.HOST, Action.NONE, False),
        "Something outside the jobs' limits uses it: check the task in the detail, shared memory and the page "
        "cache of shared filesystems.", _NPD,
    ),
    row(
        "HUNG_TASK", "tasks are blocked for minutes and cannot be killed",
        (_WARN, FaultClass.HOST, Action.NONE, False),
        "The detail names what they wait for. Storage: check it; driver: see DRIVER_TASK_HUNG.", _NPD,
    ),
    row(
        "DRIVER_TASK_HUNG", "a task is stuck in the NVIDIA driver",
        (_WARN, FaultClass.DRIVER, Action.REBOOT, False),
        "A sign that the driver hangs. If nvidia-smi does not return either (DRIVER_HUNG): reboot the node.",
        "Linux hung-task detector; the stack of the task",
    ),
    row(
        "CPU_LOCKUP", "a CPU lockup: one task held a CPU for too long",
        (_WARN, FaultClass.HOST, Action.REBOOT, False),
        "Check the stack in the kernel log. If it repeats: reboot, and compare kernel and driver with healthy nodes.",
        _NPD,
    ),
    row(
        "KERNEL_OOPS", "kernel oops: the kernel hit a bug and continued", (_WARN, FaultClass.HOST, Action.REBOOT, True),
        "Its state is unreliable: reboot once the node is empty, and keep the log.",
        f"{_NPD} (KernelOops)", moves_jobs=True,
    ),
    # network adapters
    row(
        "MLX5_HEALTH", "the firmware of a network adapter failed",
        (_FATAL, FaultClass.NETWORK, Action.REBOOT, True),
        "Reboot. If it happens again: update the firmware, then request a replacement of the adapter.",
        "Linux mlx5 health reporter; NVSentinel",
    ),
    row(
        "MLX5_COMMAND", "a network adapter does not answer its driver's commands",
        (_FATAL, FaultClass.NETWORK, Action.REBOOT, True),
        "As MLX5_HEALTH: the firmware hangs. Reboot.", "Linux mlx5; NVSentinel",
    ),
    row(
        "MLX5_MODULE", "a cable or transceiver of a network adapter reports an error",
        (_WARN, FaultClass.NETWORK, Action.NONE, False),
        "High temperature, bad cable or power: check the module (mlxlink -m). IB_DOWN reports a lost port.",
        "Linux mlx5 port module events; gpud",
    ),
    row(
        "MLX5_POWER", "a network adapter's slot gives it too little power",
        (_WARN, FaultClass.NETWORK, Action.NONE, False),
        "Check slot and riser; the adapter may slow down or lose its link.", "Linux mlx5; gpud",
    ),
)  # fmt: skip

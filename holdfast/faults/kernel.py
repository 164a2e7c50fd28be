"""What the kernel log says beside the numbers of the NVIDIA driver: PCIe, memory, disks, filesystems, tasks,
network adapters. How many of a kind are too many is the checks' word (slurm_hooks/checks/kernel_*.py).
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
        "AER_FATAL", "fatal PCIe error: the link is not to be trusted",
        (_FATAL, FaultClass.LINK, Action.REBOOT, True),
        "The detail names port and error; lspci -tv shows which GPU, NVMe or adapter is below it. Reboot. "
        "If it is the same port again: reseat or replace board or riser.", f"{_AER}; gcm",
    ),
    row(
        "AER_NONFATAL", "uncorrected PCIe errors: transactions were lost, the link works",
        (_WARN, FaultClass.LINK, Action.NONE, False),
        "Look which device is below the port and whether a job failed then. Repeated: as AER_FATAL.",
        f"{_AER}; gcm",
    ),
    row(
        "AER_CORRECTED", "many corrected PCIe errors",
        (_WARN, FaultClass.LINK, Action.NONE, False),
        "Nothing is wrong yet, but the link repeats itself: bad contact or riser. Compare other nodes.",
        f"{_AER}; gcm",
    ),
    row(
        "GPU_INIT_FAILED", "the driver could not initialise a GPU",
        (_WARN, FaultClass.GPU, Action.REBOOT, False),
        "The GPU is missing from NVML then (GPU_COUNT). Reboot; if it stays, ask for a replacement.",
        "open-gpu-kernel-modules: RmInitAdapter",
    ),
    # CPU and memory
    row(
        "MCE_UNCORRECTED", "uncorrected machine check of a CPU",
        (_FATAL, FaultClass.HOST, Action.REBOOT, True),
        "Reboot, read the BMC's event log. A second one on the same CPU or DIMM: ask for a replacement.",
        f"{_MCE}; uncorrected 1 / 24h",
    ),
    row(
        "MCE_BEFORE_BOOT", "an uncorrected machine check of the time before this boot",
        (_WARN, FaultClass.HOST, Action.NONE, False),
        "It may be why the node rebooted: read the BMC's event log. Some firmware leaves one at each boot.",
        _MCE,
    ),
    row(
        "MCE_CORRECTED", "many corrected machine checks",
        (_WARN, FaultClass.HOST, Action.NONE, False),
        "Look with ras-mc-ctl --errors or mcelog which CPU or DIMM it is, and plan its replacement.", _MCE,
    ),
    row(
        "DIMM_UNCORRECTED", "uncorrected error of a memory module",
        (_FATAL, FaultClass.HOST, Action.REBOOT, True),
        "What had the page was killed or is wrong. Reboot; replace the DIMM that the detail names.",
        f"{_MCE}; uncorrected 1 / 24h",
    ),
    row(
        "DIMM_CORRECTED", "many corrected errors of a memory module",
        (_WARN, FaultClass.HOST, Action.CONTACT_SUPPORT, False),
        "Nothing is lost yet. Plan the replacement of the DIMM that the detail names.",
        f"{_MCE}; corrected 10 / 24h",
    ),
    # disks and filesystems
    row(
        "NVME_FAILED", "an NVMe controller was given up", (_FATAL, FaultClass.STORAGE, Action.REBOOT, True),
        "Its filesystems are gone until the node is rebooted. If it comes back: replace the drive.",
        "Linux drivers/nvme; gpud",
    ),
    row(
        "NVME_TIMEOUT", "requests to an NVMe drive timed out", (_WARN, FaultClass.STORAGE, Action.NONE, False),
        "smartctl -a and nvme smart-log tell whether it wears out; look for PCIe errors above it.",
        "Linux drivers/nvme; gpud",
    ),
    row(
        "DISK_IO_ERROR", "reads or writes of a disk failed", (_WARN, FaultClass.STORAGE, Action.NONE, False),
        "smartctl -a; move what is on it. Jobs see I/O errors on it.",
        "gcm (I/O error, dev nvme); node-problem-detector",
    ),
    row(
        "FS_SHUTDOWN", "a filesystem shut itself down or became read-only",
        (_FATAL, FaultClass.STORAGE, Action.REBOOT, True),
        "Look for the disk's errors just before it. Reboot, check it (fsck, xfs_repair) before jobs write to it.",
        "node-problem-detector (FilesystemIsReadOnly, XfsHasShutDown)",
    ),
    row(
        "FS_SHUTDOWN_UNCONFIRMED", "a filesystem shut itself down that is not mounted on the node",
        (_WARN, FaultClass.STORAGE, Action.NONE, False),
        "The kernel log alone says so: mostly a damaged image that a user mounted where only his processes see it. "
        "Is it a disk of the node that could not be mounted: check it (fsck, xfs_repair).", OWN,
    ),
    row(
        "FS_ERROR", "a filesystem found errors in itself", (_WARN, FaultClass.STORAGE, Action.NONE, False),
        "Plan a check of it (fsck, xfs_repair) once the node is empty.", _NPD,
    ),
    row(
        "FS_SERVER_LOST", "the server of a filesystem does not answer",
        (_WARN, FaultClass.STORAGE, Action.WAIT, False),
        "If other nodes say so too, it is the server or its network. Tasks in it wait; MOUNT_HUNG tells whether "
        "this node still does.", "Linux NFS client; Lustre operations manual",
    ),
    row(
        "FS_EVICTED", "a Lustre server evicted this client", (_WARN, FaultClass.STORAGE, Action.NONE, False),
        "Operations under way failed: the job may have lost writes. Look at the network between them.",
        "Lustre operations manual",
    ),
    # tasks
    row(
        "OOM_JOB", "a job used up its memory limit", (_INFO, FaultClass.APPLICATION, Action.RESTART_JOB, False),
        "The job asked for too little memory (--mem) or leaks it. Nothing is wrong with the node.",
        "Linux memory cgroups",
    ),
    row(
        "OOM_SYSTEM", "the node ran out of memory and the kernel killed tasks",
        (_WARN, FaultClass.HOST, Action.NONE, False),
        "Something outside the jobs' limits uses it: look at the detail's task, at shared memory and at the page "
        "cache of shared filesystems.", _NPD,
    ),
    row(
        "HUNG_TASK", "tasks sleep for minutes and cannot be killed",
        (_WARN, FaultClass.HOST, Action.NONE, False),
        "The detail says what they wait for. Storage: look there; driver: see DRIVER_TASK_HUNG.", _NPD,
    ),
    row(
        "DRIVER_TASK_HUNG", "a task is stuck in the NVIDIA driver",
        (_WARN, FaultClass.DRIVER, Action.REBOOT, False),
        "A witness that the driver hangs. If nvidia-smi does not answer either (DRIVER_HUNG): reboot the node.",
        "Linux hung-task detector; the stack of the task",
    ),
    row(
        "CPU_LOCKUP", "a CPU did nothing but one thing for too long",
        (_WARN, FaultClass.HOST, Action.REBOOT, False),
        "Look at the stack in the kernel log. Repeated: reboot, and compare kernel and driver with healthy nodes.",
        _NPD,
    ),
    row(
        "KERNEL_OOPS", "the kernel hit a bug and went on", (_WARN, FaultClass.HOST, Action.REBOOT, True),
        "Its state is not to be trusted any more: reboot once the node is empty, keep the log.",
        f"{_NPD} (KernelOops)",
    ),
    # network adapters
    row(
        "MLX5_HEALTH", "the firmware of a network adapter failed",
        (_FATAL, FaultClass.NETWORK, Action.REBOOT, True),
        "Reboot. If it comes back: update the firmware, then ask for a replacement of the adapter.",
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
        "High temperature, bad cable or power: look at the module (mlxlink -m). The port's state decides.",
        "Linux mlx5 port module events; gpud",
    ),
    row(
        "MLX5_POWER", "a network adapter's slot gives it too little power",
        (_WARN, FaultClass.NETWORK, Action.NONE, False),
        "Look at slot and riser; the adapter may slow down or drop its link.", "Linux mlx5; gpud",
    ),
)  # fmt: skip

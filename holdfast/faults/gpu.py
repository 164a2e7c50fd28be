"""Faults of one kind: GPUs, their links and their driver, as NVML and sysfs show them."""

from __future__ import annotations

from holdfast.faults.row import OWN, Fault, row
from holdfast.vocabulary import Action, FaultClass, Severity

_FATAL, _WARN = Severity.FATAL, Severity.WARN
_NVML = "NVML reference (nvml.h)"

GPU_FAULTS: tuple[Fault, ...] = (
    row(
        "GPU_LOST", "a GPU no longer answers", (_FATAL, FaultClass.GPU, Action.REBOOT, True),
        "Reboot the node. If one of its GPUs is lost again within a week, request a replacement.",
        f"{_NVML}: NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED",
    ),
    row(
        "GPU_COUNT", "the node does not have its expected GPUs",
        (_FATAL, FaultClass.GPU, Action.REBOOT, True),
        "Compare lspci, nvidia-smi -L and node.expected_gpus. Reboot; then request a replacement.",
        OWN,
    ),
    row(
        "GPU_RECOVERY_ACTION", "the driver requires a recovery action for a GPU",
        (_FATAL, FaultClass.GPU, Action.RESET_GPU, True),
        "Do what the detail states: reset the GPU or reboot the node.",
        f"{_NVML}: field 230, GPU recovery action",
    ),
    row(
        "ROW_REMAP_PENDING", "a row remap is waiting for a GPU reset",
        (_WARN, FaultClass.GPU, Action.RESET_GPU, True),
        "Running jobs are not affected. Reset the GPU once the node is empty.",
        f"{_NVML}: nvmlDeviceGetRemappedRows",
    ),
    row(
        "ROW_REMAP_FAILED", "row remapping failed, no spare row is left",
        (_FATAL, FaultClass.GPU, Action.REPLACE, True),
        "The memory of this GPU is worn out: RMA.",
        f"{_NVML}: nvmlDeviceGetRemappedRows",
    ),
    row(
        "ECC_UNCORRECTED", "uncorrectable memory errors since the driver started",
        (_FATAL, FaultClass.GPU, Action.RESET_GPU, True),
        "Reset the GPU once the node is empty. If the errors return: RMA.",
        f"{_NVML}: volatile uncorrected ECC counters; NVIDIA GPU memory error management",
    ),
    row(
        "SRAM_THRESHOLD", "a GPU exceeded its threshold of SRAM errors",
        (_WARN, FaultClass.GPU, Action.REPLACE, True),
        "The GPU itself reports that its SRAM is worn out: let the jobs end, then RMA.",
        f"{_NVML}: nvmlDeviceGetSramEccErrorStatus; NVIDIA GPU memory error management",
    ),
    row(
        "ROW_REMAP_LOW", "memory banks of a GPU have few spare rows left",
        (_WARN, FaultClass.GPU, Action.CONTACT_SUPPORT, False),
        "No error yet. Plan the GPU's replacement: further errors there cannot be repaired.",
        f"{_NVML}: nvmlDeviceGetRowRemapperHistogram",
    ),
    row(
        "GPU_REPAIR_PENDING", "a repair of a GPU is waiting for a reset",
        (_WARN, FaultClass.GPU, Action.RESET_GPU, True),
        "Running jobs are not affected. Reset the GPU once the node is empty.",
        f"{_NVML}: nvmlDeviceGetRepairStatus",
    ),
    row(
        "INFOROM_CORRUPT", "a GPU's InfoROM is corrupt",
        (_WARN, FaultClass.GPU, Action.CONTACT_SUPPORT, True),
        "Its error records cannot be trusted: power-cycle the node; if the fault remains, request a replacement.",
        f"{_NVML}: NVML_ERROR_CORRUPTED_INFOROM",
    ),
    row(
        "GPU_UNREADABLE", "the driver gives no handle for a GPU",
        (_FATAL, FaultClass.GPU, Action.REBOOT, True),
        "No program can use it. Reboot; if the fault remains, check the kernel log and request a replacement.",
        f"{_NVML}: nvmlDeviceGetHandleByIndex",
    ),
    row(
        "GPU_CALLS_FAIL", "NVML calls about a GPU keep failing",
        (_WARN, FaultClass.DRIVER, Action.NONE, False),
        "Look up the code in nvml.h and check the kernel log at that time; the called value is unknown.",
        "Holdfast; gcm treats these codes as a warning",
    ),
    row(
        "NVLINK_ERRORS", "NVLinks of a GPU count recoveries, replays or CRC errors",
        (_WARN, FaultClass.LINK, Action.RESET_GPU, True),
        "Reset all GPUs of the node. If the same link fails again, suspect the GPU or its switch.",
        f"{_NVML}: fields 161-163; limits of DCGM's NVLink health watch", moves_jobs=True,
    ),
    row(
        "GPU_FABRIC", "a GPU has not joined the NVLink fabric",
        (_FATAL, FaultClass.SWITCH, Action.WAIT, True),
        "Check nvidia-fabricmanager (systemctl status, its log) and restart it. If it reports an error of "
        "the fabric itself, reset all GPUs or reboot.",
        f"{_NVML}: nvmlDeviceGetGpuFabricInfoV; NVSentinel's grace of 300 s",
    ),
    row(
        "NVLINK_DOWN", "NVLinks of a GPU are down", (_FATAL, FaultClass.LINK, Action.RESET_GPU, True),
        "Reset all GPUs of the node. If several GPUs lost links at the same time, suspect the switch.",
        f"{_NVML}: 18 links on H100; DCGM NVLink check",
    ),
    row(
        "GPU_THERMAL", "a GPU reduces its clocks because it is too hot",
        (_WARN, FaultClass.GPU, Action.WAIT, True),
        "Check fans, air flow and the neighbouring nodes. Request a replacement if only this node is affected.",
        f"{_NVML}: clocks event reasons, hardware thermal slowdown", moves_jobs=True,
    ),
    row(
        "GPU_POWER_BRAKE", "an external power brake limits a GPU",
        (_WARN, FaultClass.HOST, Action.WAIT, True),
        "Check the power supplies and the rack's power cap.",
        f"{_NVML}: clocks event reasons, hardware power brake", moves_jobs=True,
    ),
    row(
        "PCIE_WIDTH", "a GPU's PCIe link is narrower than it can be",
        (_WARN, FaultClass.LINK, Action.REBOOT, False),
        "If it remains after a reboot, reseat or replace the board. Transfers are slower, but correct.",
        f"{_NVML}: current and maximum PCIe link width",
    ),
    row(
        "PCIE_SPEED", "a working GPU's PCIe link is slower than it can be",
        (_WARN, FaultClass.LINK, Action.REBOOT, False),
        "If it remains after a reboot, reseat or replace the board. Transfers are slower, but correct.",
        f"{_NVML}: current and maximum PCIe link generation",
    ),
    row(
        "PCIE_REPLAYS", "a GPU's PCIe link replays packets often",
        (_WARN, FaultClass.LINK, Action.REBOOT, False),
        "A bad contact or riser: reseat the board if it remains after a reboot.",
        f"{_NVML}: field 94; 31 a minute for Gen5 x16 as in DCGM",
    ),
    row(
        "GPU_MODE", "a GPU is not in its expected mode",
        (_WARN, FaultClass.GPU, Action.WAIT, False),
        "Set it with nvidia-smi (-pm, -e, -mig, -c), or set the expected mode in checks.gpu_modes.limits.",
        f"{_NVML}: persistence, ECC, MIG and compute mode; gpud",
    ),
    row(
        "GPU_PROHIBITED", "a GPU's compute mode forbids every program",
        (_FATAL, FaultClass.GPU, Action.WAIT, True),
        "nvidia-smi -c 0 permits programs again; find out who set the mode.",
        f"{_NVML}: NVML_COMPUTEMODE_PROHIBITED",
    ),
    row(
        "GPU_VERSIONS", "the GPUs of a node differ in model, VBIOS or firmware",
        (_WARN, FaultClass.DRIVER, Action.CONTACT_SUPPORT, False),
        "Bring the board to the version of the others at the next maintenance.",
        f"{_NVML}: VBIOS, InfoROM and GSP firmware versions; gcm",
    ),
    row(
        "DRIVER_SUSPECT", "the NVIDIA driver may hang (one probe, not confirmed)",
        (_WARN, FaultClass.DRIVER, Action.WAIT, False),
        "Check nvidia-smi, and dmesg for GSP and hung-task messages. A second independent probe confirms it "
        "as DRIVER_HUNG.",
        OWN,
    ),
    row(
        "DRIVER_HUNG", "the NVIDIA driver does not return from a call",
        (_FATAL, FaultClass.DRIVER, Action.REBOOT, True),
        "Processes in the driver cannot be killed: reboot. Keep the kernel log.",
        "nvidia-resiliency-ext and Holdfast: deadline missed, worker in uninterruptible sleep",
    ),
    row(
        "PCI_GPU_GONE", "a GPU is not on the PCI bus", (_FATAL, FaultClass.GPU, Action.REBOOT, True),
        "The kernel does not list it. Reboot (power-cycle if a warm reboot does not help); then request a "
        "replacement.", "Linux sysfs-bus-pci",
    ),
    row(
        "PCI_DEVICE_SILENT", "a GPU, NVSwitch or network card has fallen off the bus",
        (_FATAL, FaultClass.LINK, Action.REBOOT, True),
        "Its configuration space reads as all ones: no driver can use it. Reboot; if it happens "
        "again, request a replacement.", "PCI: reads of an absent device return all ones",
    ),
    row(
        "NVSWITCH_GONE", "an NVSwitch is not on the PCI bus",
        (_FATAL, FaultClass.SWITCH, Action.REBOOT, True),
        "NVLink between GPUs is reduced or gone. Reboot; then request a replacement of the baseboard.",
        "Linux sysfs-bus-pci; NVIDIA Fabric Manager guide: four NVSwitches on an HGX H100",
    ),
    row(
        "PCIE_AER_FATAL", "fatal PCIe errors", (_FATAL, FaultClass.LINK, Action.REBOOT, True),
        "The link was lost. Reboot; if it happens again, reseat or replace the device or its riser.",
        "Linux sysfs-bus-pci-devices-aer_stats",
    ),
    row(
        "PCIE_AER", "PCIe errors that lose or delay data", (_WARN, FaultClass.LINK, Action.WAIT, False),
        "Uncorrectable ones fail a transaction; many corrected ones indicate a bad link. Reseat "
        "the board at the next maintenance.", "Linux sysfs-bus-pci-devices-aer_stats; DCGM PCIe watch",
    ),
    row(
        "DCGM_FAILURE", "DCGM's health watches report a failure",
        (_WARN, FaultClass.GPU, Action.WAIT, True),
        "Follow DCGM's message, and compare it with the results of Holdfast's own checks.",
        "DCGM health: DCGM_HEALTH_RESULT_FAIL",
    ),
    row(
        "DCGM_WARNING", "DCGM's health watches report a warning", (_WARN, FaultClass.GPU, Action.WAIT, False),
        "Follow DCGM's message at the next maintenance.", "DCGM health: DCGM_HEALTH_RESULT_WARN",
    ),
    row(
        "NVML_UNAVAILABLE", "the NVIDIA management library cannot be used",
        (_WARN, FaultClass.DRIVER, Action.REBOOT, True),
        "nvidia-smi prints the cause: driver not loaded, or library and driver of different releases.",
        f"{_NVML}: NVML_ERROR_DRIVER_NOT_LOADED, NVML_ERROR_LIB_RM_VERSION_MISMATCH",
    ),
)  # fmt: skip

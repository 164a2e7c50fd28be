"""Faults of one kind: GPUs, their links and their driver, as NVML and sysfs show them."""

from __future__ import annotations

from holdfast.faults.row import OWN, Fault, row
from holdfast.vocabulary import Action, FaultClass, Severity

_FATAL, _WARN = Severity.FATAL, Severity.WARN
_NVML = "NVML reference (nvml.h)"

GPU_FAULTS: tuple[Fault, ...] = (
    row(
        "GPU_LOST", "a GPU no longer answers", (_FATAL, FaultClass.GPU, Action.REBOOT, True),
        "Reboot the node. If a GPU of it is lost again within a week, ask for a replacement.",
        f"{_NVML}: NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED",
    ),
    row(
        "GPU_COUNT", "the node has not the GPUs that it should have",
        (_FATAL, FaultClass.GPU, Action.REBOOT, True),
        "Compare lspci, nvidia-smi -L and node.expected_gpus. Reboot; then ask for a replacement.",
        OWN,
    ),
    row(
        "GPU_RECOVERY_ACTION", "the driver asks for a recovery of a GPU",
        (_FATAL, FaultClass.GPU, Action.RESET_GPU, True),
        "Do what the detail says: reset the GPU or reboot the node.",
        f"{_NVML}: field 230, GPU recovery action",
    ),
    row(
        "ROW_REMAP_PENDING", "a row remap waits for a GPU reset",
        (_WARN, FaultClass.GPU, Action.RESET_GPU, True),
        "Running work is unaffected. Reset the GPU once the node is empty.",
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
        "Reset the GPU once the node is empty. If it comes back: RMA.",
        f"{_NVML}: volatile uncorrected ECC counters; NVIDIA GPU memory error management",
    ),
    row(
        "SRAM_THRESHOLD", "a GPU had more SRAM errors than it may",
        (_WARN, FaultClass.GPU, Action.REPLACE, True),
        "The GPU itself says that its SRAM is worn out: let the jobs end, then RMA.",
        f"{_NVML}: nvmlDeviceGetSramEccErrorStatus; NVIDIA GPU memory error management",
    ),
    row(
        "ROW_REMAP_LOW", "memory banks of a GPU have few spare rows left",
        (_WARN, FaultClass.GPU, Action.CONTACT_SUPPORT, False),
        "Nothing is wrong yet. Plan the GPU's replacement: the next errors there cannot be repaired.",
        f"{_NVML}: nvmlDeviceGetRowRemapperHistogram",
    ),
    row(
        "GPU_REPAIR_PENDING", "a repair of a GPU waits for a reset",
        (_WARN, FaultClass.GPU, Action.RESET_GPU, True),
        "Running work is unaffected. Reset the GPU once the node is empty.",
        f"{_NVML}: nvmlDeviceGetRepairStatus",
    ),
    row(
        "INFOROM_CORRUPT", "a GPU's InfoROM is corrupt",
        (_WARN, FaultClass.GPU, Action.CONTACT_SUPPORT, True),
        "Its error records cannot be trusted: power-cycle the node; if it stays, ask for a replacement.",
        f"{_NVML}: NVML_ERROR_CORRUPTED_INFOROM",
    ),
    row(
        "GPU_UNREADABLE", "the driver gives no handle for a GPU",
        (_FATAL, FaultClass.GPU, Action.REBOOT, True),
        "No program can use it. Reboot; if it stays, look at the kernel log and ask for a replacement.",
        f"{_NVML}: nvmlDeviceGetHandleByIndex",
    ),
    row(
        "GPU_CALLS_FAIL", "NVML calls about a GPU keep failing",
        (_WARN, FaultClass.DRIVER, Action.NONE, False),
        "Look up the code in nvml.h and the kernel log of the time; what the call tells is unknown here.",
        "Holdfast; gcm treats these codes as a warning",
    ),
    row(
        "NVLINK_ERRORS", "NVLinks of a GPU recover, replay or miscount",
        (_WARN, FaultClass.LINK, Action.RESET_GPU, True),
        "Reset all GPUs of the node. If the same link does it again, suspect the GPU or its switch.",
        f"{_NVML}: fields 161-163; limits of DCGM's NVLink health watch",
    ),
    row(
        "GPU_FABRIC", "a GPU has not joined the NVLink fabric",
        (_FATAL, FaultClass.SWITCH, Action.WAIT, True),
        "Look at nvidia-fabricmanager (systemctl status, its log) and start it again. If it reports an "
        "error of the fabric itself, reset all GPUs or reboot.",
        f"{_NVML}: nvmlDeviceGetGpuFabricInfoV; NVSentinel's grace of 300 s",
    ),
    row(
        "NVLINK_DOWN", "fewer NVLinks than the GPU has", (_FATAL, FaultClass.LINK, Action.RESET_GPU, True),
        "Reset all GPUs of the node. If several GPUs lost links at once, suspect the switch.",
        f"{_NVML}: 18 links on H100; DCGM NVLink check",
    ),
    row(
        "GPU_THERMAL", "a GPU slows itself down because it is too hot",
        (_WARN, FaultClass.GPU, Action.WAIT, True),
        "Look at fans, air flow and neighbours. Ask for a replacement when it is this node alone.",
        f"{_NVML}: clocks event reasons, hardware thermal slowdown",
    ),
    row(
        "GPU_POWER_BRAKE", "the facility cuts the GPU's power",
        (_WARN, FaultClass.HOST, Action.WAIT, True),
        "Look at power supplies and the rack's power cap.",
        f"{_NVML}: clocks event reasons, hardware power brake",
    ),
    row(
        "PCIE_WIDTH", "a GPU's PCIe link is narrower than it can be",
        (_WARN, FaultClass.LINK, Action.REBOOT, False),
        "Reseat or replace when it stays after a reboot. Data moves slower, nothing is wrong.",
        f"{_NVML}: current and maximum PCIe link width",
    ),
    row(
        "PCIE_SPEED", "a working GPU's PCIe link is slower than it can be",
        (_WARN, FaultClass.LINK, Action.REBOOT, False),
        "Reseat or replace when it stays after a reboot. Data moves slower, nothing is wrong.",
        f"{_NVML}: current and maximum PCIe link generation",
    ),
    row(
        "PCIE_REPLAYS", "a GPU's PCIe link repeats itself often",
        (_WARN, FaultClass.LINK, Action.REBOOT, False),
        "A bad contact or riser: reseat the board when it stays after a reboot.",
        f"{_NVML}: field 94; 31 a minute for Gen5 x16 as in DCGM",
    ),
    row(
        "GPU_MODE", "a GPU is in another mode than it should be",
        (_WARN, FaultClass.GPU, Action.WAIT, False),
        "Set it with nvidia-smi (-pm, -e, -mig, -c), or say in checks.gpu_modes.limits what is right here.",
        f"{_NVML}: persistence, ECC, MIG and compute mode; gpud",
    ),
    row(
        "GPU_PROHIBITED", "a GPU's compute mode forbids every program",
        (_FATAL, FaultClass.GPU, Action.WAIT, True),
        "nvidia-smi -c 0 allows programs again; find out who set it.",
        f"{_NVML}: NVML_COMPUTEMODE_PROHIBITED",
    ),
    row(
        "GPU_VERSIONS", "the GPUs of a node differ in model, VBIOS or firmware",
        (_WARN, FaultClass.DRIVER, Action.CONTACT_SUPPORT, False),
        "Bring the board that differs to the version of the others when the node is next in service.",
        f"{_NVML}: VBIOS, InfoROM and GSP firmware versions; gcm",
    ),
    row(
        "DRIVER_SUSPECT", "the NVIDIA driver seems to hang, on one witness's word",
        (_WARN, FaultClass.DRIVER, Action.WAIT, False),
        "Look again: nvidia-smi, and dmesg for GSP and hung-task messages. A second witness makes it "
        "DRIVER_HUNG.",
        OWN,
    ),
    row(
        "DRIVER_HUNG", "the NVIDIA driver does not return from a call",
        (_FATAL, FaultClass.DRIVER, Action.REBOOT, True),
        "Processes in it cannot be killed: only a reboot helps. Keep the kernel log.",
        "nvidia-resiliency-ext and Holdfast: deadline missed, worker in uninterruptible sleep",
    ),
    row(
        "PCI_GPU_GONE", "a GPU is not on the PCI bus", (_FATAL, FaultClass.GPU, Action.REBOOT, True),
        "The kernel itself does not see it. Reboot (a cold one where a warm one does not help); then "
        "ask for a replacement.", "Linux sysfs-bus-pci",
    ),
    row(
        "PCI_DEVICE_SILENT", "a GPU, NVSwitch or network card has fallen off the bus",
        (_FATAL, FaultClass.LINK, Action.REBOOT, True),
        "Its configuration space reads as all ones: no driver can talk to it. Reboot; when it comes "
        "back, ask for a replacement.", "PCI: reads of an absent device return all ones",
    ),
    row(
        "NVSWITCH_GONE", "an NVSwitch is not on the PCI bus",
        (_FATAL, FaultClass.SWITCH, Action.REBOOT, True),
        "NVLink between GPUs is reduced or gone. Reboot; then ask for a replacement of the baseboard.",
        "Linux sysfs-bus-pci; NVIDIA Fabric Manager guide: four NVSwitches on an HGX H100",
    ),
    row(
        "PCIE_AER_FATAL", "fatal PCIe errors", (_FATAL, FaultClass.LINK, Action.REBOOT, True),
        "The link was lost. Reboot; where it comes back, reseat or replace the device or its riser.",
        "Linux sysfs-bus-pci-devices-aer_stats",
    ),
    row(
        "PCIE_AER", "PCIe errors that lose data or time", (_WARN, FaultClass.LINK, Action.WAIT, False),
        "Uncorrectable ones fail a transaction; many corrected ones announce a bad link. Reseat at "
        "the next maintenance.", "Linux sysfs-bus-pci-devices-aer_stats; DCGM PCIe watch",
    ),
    row(
        "DCGM_FAILURE", "DCGM's health watches say failure",
        (_WARN, FaultClass.GPU, Action.WAIT, True),
        "Do what its text says. It is a second opinion: look whether Holdfast's own checks agree.",
        "DCGM health: DCGM_HEALTH_RESULT_FAIL",
    ),
    row(
        "DCGM_WARNING", "DCGM's health watches warn", (_WARN, FaultClass.GPU, Action.WAIT, False),
        "Do what its text says, at the next maintenance.", "DCGM health: DCGM_HEALTH_RESULT_WARN",
    ),
    row(
        "NVML_UNAVAILABLE", "the NVIDIA management library cannot be used",
        (_WARN, FaultClass.DRIVER, Action.REBOOT, True),
        "nvidia-smi tells why: driver not loaded, or library and driver of different releases.",
        f"{_NVML}: NVML_ERROR_DRIVER_NOT_LOADED, NVML_ERROR_LIB_RM_VERSION_MISMATCH",
    ),
)  # fmt: skip

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
        "DRIVER_HUNG", "the NVIDIA driver does not return from a call",
        (_FATAL, FaultClass.DRIVER, Action.REBOOT, True),
        "Processes in it cannot be killed: only a reboot helps. Keep the kernel log.",
        "nvidia-resiliency-ext and Holdfast: deadline missed, worker in uninterruptible sleep",
    ),
    row(
        "NVML_UNAVAILABLE", "the NVIDIA management library cannot be used",
        (_WARN, FaultClass.DRIVER, Action.REBOOT, True),
        "nvidia-smi tells why: driver not loaded, or library and driver of different releases.",
        f"{_NVML}: NVML_ERROR_DRIVER_NOT_LOADED, NVML_ERROR_LIB_RM_VERSION_MISMATCH",
    ),
)  # fmt: skip

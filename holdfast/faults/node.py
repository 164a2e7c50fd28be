"""The faults that are not Xids: what Holdfast's own probes see, and what it says in Slurm."""

from __future__ import annotations

from holdfast.faults.row import Fault
from holdfast.vocabulary import Action, FaultClass, Severity

_FATAL, _WARN, _INFO = Severity.FATAL, Severity.WARN, Severity.INFO
_OWN = "Holdfast"
_NVML = "NVML reference (nvml.h)"


def _row(
    code: str,
    title: str,
    kind: tuple[Severity, FaultClass, Action, bool],
    runbook: str,
    source: str,
) -> Fault:
    severity, fault_class, action, drains = kind
    return Fault(
        code=code,
        title=title,
        severity=severity,
        fault_class=fault_class,
        action=action,
        drains=drains,
        runbook=runbook,
        source=source,
    )


NODE_FAULTS: tuple[Fault, ...] = (
    # GPUs
    _row(
        "GPU_LOST", "a GPU no longer answers", (_FATAL, FaultClass.GPU, Action.REBOOT, True),
        "Reboot the node. If a GPU of it is lost again within a week, ask for a replacement.",
        f"{_NVML}: NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED",
    ),
    _row(
        "GPU_COUNT", "the node has not the GPUs that it should have",
        (_FATAL, FaultClass.GPU, Action.REBOOT, True),
        "Compare lspci, nvidia-smi -L and node.expected_gpus. Reboot; then ask for a replacement.",
        _OWN,
    ),
    _row(
        "GPU_RECOVERY_ACTION", "the driver asks for a recovery of a GPU",
        (_FATAL, FaultClass.GPU, Action.RESET_GPU, True),
        "Do what the detail says: reset the GPU or reboot the node.",
        f"{_NVML}: field 230, GPU recovery action",
    ),
    _row(
        "ROW_REMAP_PENDING", "a row remap waits for a GPU reset",
        (_WARN, FaultClass.GPU, Action.RESET_GPU, True),
        "Running work is unaffected. Reset the GPU once the node is empty.",
        f"{_NVML}: nvmlDeviceGetRemappedRows",
    ),
    _row(
        "ROW_REMAP_FAILED", "row remapping failed, no spare row is left",
        (_FATAL, FaultClass.GPU, Action.REPLACE, True),
        "The memory of this GPU is worn out: RMA.",
        f"{_NVML}: nvmlDeviceGetRemappedRows",
    ),
    _row(
        "ECC_UNCORRECTED", "uncorrectable memory errors since the driver started",
        (_FATAL, FaultClass.GPU, Action.RESET_GPU, True),
        "Reset the GPU once the node is empty. If it comes back: RMA.",
        f"{_NVML}: volatile uncorrected ECC counters; NVIDIA GPU memory error management",
    ),
    _row(
        "NVLINK_DOWN", "fewer NVLinks than the GPU has", (_FATAL, FaultClass.LINK, Action.RESET_GPU, True),
        "Reset all GPUs of the node. If several GPUs lost links at once, suspect the switch.",
        f"{_NVML}: 18 links on H100; DCGM NVLink check",
    ),
    _row(
        "GPU_THERMAL", "a GPU slows itself down because it is too hot",
        (_WARN, FaultClass.GPU, Action.WAIT, True),
        "Look at fans, air flow and neighbours. Ask for a replacement when it is this node alone.",
        f"{_NVML}: clocks event reasons, hardware thermal slowdown",
    ),
    _row(
        "GPU_POWER_BRAKE", "the facility cuts the GPU's power",
        (_WARN, FaultClass.HOST, Action.WAIT, True),
        "Look at power supplies and the rack's power cap.",
        f"{_NVML}: clocks event reasons, hardware power brake",
    ),
    _row(
        "PCIE_WIDTH", "a GPU's PCIe link is narrower than it can be",
        (_WARN, FaultClass.LINK, Action.REBOOT, False),
        "Reseat or replace when it stays after a reboot. Data moves slower, nothing is wrong.",
        f"{_NVML}: current and maximum PCIe link width",
    ),
    _row(
        "DRIVER_HUNG", "the NVIDIA driver does not return from a call",
        (_FATAL, FaultClass.DRIVER, Action.REBOOT, True),
        "Processes in it cannot be killed: only a reboot helps. Keep the kernel log.",
        "nvidia-resiliency-ext and Holdfast: deadline missed, worker in uninterruptible sleep",
    ),
    _row(
        "NVML_UNAVAILABLE", "the NVIDIA management library cannot be used",
        (_WARN, FaultClass.DRIVER, Action.REBOOT, True),
        "nvidia-smi tells why: driver not loaded, or library and driver of different releases.",
        f"{_NVML}: NVML_ERROR_DRIVER_NOT_LOADED, NVML_ERROR_LIB_RM_VERSION_MISMATCH",
    ),
    _row(
        "XID_UNKNOWN", "an Xid that the catalogue does not have",
        (_WARN, FaultClass.DRIVER, Action.NONE, False),
        "Keep the kernel log; look the number up in NVIDIA's Xid catalogue.", _OWN,
    ),
    # network
    _row(
        "IB_DOWN", "an InfiniBand port is not active", (_FATAL, FaultClass.NETWORK, Action.WAIT, True),
        "Look at cable, transceiver and switch port. The node returns once the port is active.",
        "Linux sysfs-class-infiniband; NVSentinel",
    ),
    _row(
        "IB_FLAP", "an InfiniBand port went down and up again",
        (_WARN, FaultClass.NETWORK, Action.WAIT, True),
        "Clean or replace cable and transceiver when one port does it more than once a day.",
        "NVIDIA cluster bring-up guide: link_downed",
    ),
    # storage
    _row(
        "MOUNT_GONE", "a mount that jobs need is not mounted",
        (_FATAL, FaultClass.STORAGE, Action.WAIT, True),
        "Mount it again; look at the storage if other nodes lost it too.", _OWN,
    ),
    _row(
        "MOUNT_HUNG", "a mount does not answer", (_FATAL, FaultClass.STORAGE, Action.WAIT, True),
        "Look at the storage and its client. Processes in it cannot be killed until it answers.", _OWN,
    ),
    _row(
        "MOUNT_FULL", "a mount has no room left", (_WARN, FaultClass.STORAGE, Action.WAIT, False),
        "Make room. Other nodes see the same, so leaving service would help nobody.", _OWN,
    ),
    _row(
        "MOUNT_READ_ONLY", "a mount that jobs write to is read-only",
        (_FATAL, FaultClass.STORAGE, Action.WAIT, True),
        "Mount it read-write again; look in the kernel log for why it changed.", _OWN,
    ),
    # host, and Holdfast itself
    _row(
        "CLOCK_SKEW", "the node's clock differs from slurmctld's",
        (_WARN, FaultClass.HOST, Action.WAIT, False),
        "Look at chrony or ntpd. Slurm's credentials fail at five minutes.", _OWN,
    ),
    _row(
        "KMSG_LOST", "kernel messages were lost before they were read",
        (_WARN, FaultClass.HOLDFAST, Action.NONE, False),
        "An Xid may have been among them: run holdfast check on the node.", "Linux /dev/kmsg",
    ),
    _row(
        "PROBE_BLIND", "a probe gave no answer several times in a row",
        (_WARN, FaultClass.HOLDFAST, Action.WAIT, True),
        "Run holdfast check on the node and read the agent's log.", "law 2 of the design",
    ),
    _row(
        "PROLOG", "the prolog refused the node", (_FATAL, FaultClass.HOLDFAST, Action.WAIT, True),
        "Run holdfast explain on the node.", _OWN,
    ),
    _row(
        "EPILOG", "the epilog refused the node", (_FATAL, FaultClass.HOLDFAST, Action.WAIT, True),
        "Run holdfast explain on the node.", _OWN,
    ),
    _row(
        "KUBE_CORDON", "the Kubernetes node is cordoned",
        (_INFO, FaultClass.HOLDFAST, Action.NONE, True),
        "kubectl uncordon gives it back.", _OWN,
    ),
)  # fmt: skip

"""Every Xid that an H100's driver can print, as data.

Immediate action and class: NVIDIA's Xid catalogue (page of 2025-10-29, NVIDIA's immediate and
investigatory buckets). The severity is Holdfast's: FATAL only where the GPU cannot continue; what the
application caused is INFO: evidence about the job and never against the node. A number that is not
here is WARN and never drains (NVIDIA adds numbers with new drivers; a guess could drain whole clusters).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.faults.row import Fault, row
from holdfast.vocabulary import Action, FaultClass, Severity

_INFO, _WARN, _FATAL = Severity.INFO, Severity.WARN, Severity.FATAL
_APP, _GPU, _LINK, _DRIVER = (
    FaultClass.APPLICATION,
    FaultClass.GPU,
    FaultClass.LINK,
    FaultClass.DRIVER,
)
_SOURCE = "NVIDIA Xid catalogue, 2025-10-29"

_JOB = (
    "Usually an application error. Check the job; suspect the GPU if other jobs get it there too."
)
_METRIC = "Nothing to do. Recorded because it helps to explain other faults of this GPU."
_RESET = "Let the jobs end, then reset the GPU (nvidia-smi -r -i GPU) or reboot. If it happens again: RMA."
_GSP = (
    "The GPU's firmware (GSP) does not respond: nvidia-smi and NVML may hang on it. Let the jobs end, then "
    "nvidia-smi -r -i GPU; if that hangs, reboot. On several nodes: a driver bug, look for a newer release."
)
_UNUSED = "NVIDIA publishes no meaning for it. If it repeats, keep the log and contact NVIDIA."
_BLACKWELL = (
    "A number of Blackwell GPUs: it should not appear on an H100. Keep the log, contact NVIDIA."
)

_NEW = (
    "A number of the drivers since 595 for which NVIDIA has published no remedy yet. Keep the log; an Xid "
    "154 with it names the recovery action."
)

_Kind = tuple[Severity, FaultClass, Action, bool, str]
_KINDS: Mapping[str, _Kind] = {
    "job": (_INFO, _APP, Action.RESTART_JOB, False, _JOB),
    "job-link": (_INFO, _LINK, Action.RESTART_JOB, False, "A consequence of a failure of a peer GPU: check that one."),
    "metric-app": (_INFO, _APP, Action.NONE, False, _METRIC),
    "metric-gpu": (_INFO, _GPU, Action.NONE, False, _METRIC),
    "metric-driver": (_INFO, _DRIVER, Action.NONE, False, _METRIC),
    "unused": (_WARN, _DRIVER, Action.NONE, False, _UNUSED),
    "new": (_WARN, _DRIVER, Action.NONE, False, _NEW),
    "blackwell": (_WARN, _DRIVER, Action.NONE, False, _BLACKWELL),
    "reset-gpu": (_FATAL, _GPU, Action.RESET_GPU, True, _RESET),
    "reset-driver": (_FATAL, _DRIVER, Action.RESET_GPU, True, _RESET),
    "gsp": (_FATAL, _DRIVER, Action.RESET_GPU, True, _GSP),
    "reset-link": (_FATAL, _LINK, Action.RESET_GPU, True, _RESET),
    "contact": (
        _FATAL, _GPU, Action.CONTACT_SUPPORT, True,
        "The machine needs a repair or a replacement: open a case with its provider.",
    ),
}  # fmt: skip

# number: (kind, title). Titles have NVIDIA's mnemonic, so that a search finds its pages.
_ROWS: Mapping[int, tuple[str, str]] = {
    8: ("job", "GPU stopped processing (FIFO_ERROR_IDLE_TIMEOUT)"),
    11: ("job", "bad push buffer (GR_ERROR_MISSING_HW)"),
    13: ("job", "graphics engine exception (GR_EXCEPTION)"),
    25: ("job", "bad push buffer (GR_ILLEGAL_NOTIFY)"),
    31: ("job", "GPU page fault (FIFO_ERROR_MMU_ERR_FLT)"),
    32: ("job", "bad push buffer (PBDMA_ERROR)"),
    37: ("metric-driver", "driver firmware error (FECS_ERR)"),
    38: ("metric-driver", "driver firmware error (FECS_ERR)"),
    39: ("job", "copy engine 0 error (CE0_ERROR)"),
    40: ("job", "copy engine 1 error (CE1_ERROR)"),
    41: ("job", "copy engine 2 error (CE2_ERROR)"),
    43: ("metric-app", "GPU stopped processing, its channel was reset (RESETCHANNEL_VERIF_ERROR)"),
    44: ("metric-gpu", "fault during a context switch (GR_FAULT_DURING_CTXSW)"),
    45: ("metric-app", "channel removed after a kill or another Xid (PREEMPTIVE_REMOVAL)"),
    46: ("reset-gpu", "GPU time-out (GPU_TIMEOUT_ERROR)"),
    48: ("reset-gpu", "double-bit ECC error (GPU_ECC_DBE)"),
    54: ("contact", "auxiliary power missing (SILENT_RUNNING_PWR_REDUCED_CLOCKING)"),
    60: ("job", "video or security engine error"),
    42: ("unused", "video image compositor error (VIC_ERROR)"),
    57: ("unused", "memory link training failed (FB_LINK_TRAINING_FAILURE_ERROR)"),
    58: ("unused", "memory error (FB_MEMORY_ERROR)"),
    59: ("unused", "power management unit error (PMU_ERROR)"),
    61: ("unused", "PMU breakpoint (unused on H100)"),
    62: ("reset-driver", "power management unit halted (PMU_HALT_ERROR)"),
    63: ("metric-gpu", "row remap recorded (INFOROM_DRAM_RETIREMENT_EVENT)"),
    64: ("reset-gpu", "row remap could not be recorded (INFOROM_DRAM_RETIREMENT_FAILURE)"),
    66: ("metric-driver", "register access violation (FECS_ERR_REG_ACCESS_VIOLATION)"),
    67: ("metric-driver", "register access violation (FECS_ERR_VERIF)"),
    68: ("job", "video decoder error (NVDEC0)"),
    69: ("job", "graphics class error (GR_CLASS_ERROR)"),
    78: ("metric-driver", "vGPU start error (VGPU_START_ERROR)"),
    80: ("job", "corrupted data sent to the GPU (PBDMA_PUSHBUFFER_CRC_MISMATCH)"),
    90: ("unused", "level 2 cache error (LTC_ERROR)"),
    92: ("metric-gpu", "many corrected ECC errors (EXCESSIVE_SBE_INTERRUPTS)"),
    93: ("metric-gpu", "infoROM erase limit (INFOROM_ERASE_LIMIT_EXCEEDED)"),
    94: ("job", "contained memory error (CONTAINED_ERROR)"),
    95: ("reset-gpu", "uncontained memory error (UNCONTAINED_ERROR)"),
    106: ("metric-driver", "SMBPBI test message"),
    107: ("metric-driver", "SMBPBI test message"),
    108: ("job-link", "NVLink remote translation error"),
    109: ("reset-driver", "context switch time-out (CTXSW_TIMEOUT_ERROR)"),
    110: ("reset-driver", "security fault (SEC_FAULT_ERROR)"),
    119: ("gsp", "GPU system processor does not answer (GSP_RPC_TIMEOUT)"),
    120: ("gsp", "GPU system processor error (GSP_ERROR)"),
    121: ("metric-gpu", "chip-to-chip link error (C2C_ERROR, not on H100)"),
    125: ("unused", "InfoROM filesystem error (INFOROM_FS_ERROR)"),
    136: ("reset-link", "NVLink training failed (ALI_TRAINING_FAIL)"),
    137: ("job-link", "NVLink access without rights (NVLINK_PRIV_ERR)"),
    138: ("unused", "deep learning accelerator error (DLA_ERROR)"),
    139: ("job", "optical flow engine error (OFA1_ERROR)"),
    140: ("reset-gpu", "unrecovered ECC error escaped (UNRECOVERABLE_ECC_ERROR_ESCAPE)"),
    141: ("metric-driver", "CUDA fast path event"),
    143: ("reset-gpu", "GPU initialisation failed (GPU_INIT_ERROR)"),
    152: ("metric-driver", "deep learning accelerator event"),
    153: ("metric-driver", "deep learning accelerator event"),
    158: ("reset-gpu", "fatal GPU time-out (GPU_FATAL_TIMEOUT)"),
    167: ("contact", "fatal PCIe time-out (PCIE_FATAL_TIMEOUT)"),
    169: ("contact", "security processor halted (SEC2_HALT_ERROR)"),
    171: ("metric-gpu", "detail of an Xid 48: uncorrectable DRAM error"),
    172: ("metric-gpu", "detail of an Xid 48: uncorrectable SRAM error"),
    173: ("new", "chip-to-chip link failed for good (C2C_FATAL_LINK_FAILURE, not on H100)"),
    174: ("new", "process ended with its channel (RESETCHANNEL_KILL_PROCESS_SILENT)"),
    175: ("new", "memory subsystem error (MEMORY_SUBSYSTEM_ERROR)"),
    176: ("new", "PCIe corrected an error (PCIE_CORRECTABLE_ERROR_FAULT)"),
}
CONSEQUENCES = frozenset({43, 45, 108, 137, 171, 172})
"""Consequences of a kill, a peer's failure or another Xid (NVIDIA's catalogue: "Preemptive cleanup, due to
previous errors", XID_137_FLOW, "Additional to Xid 48"): never a cause.
"""

_RANGES: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    ("job", "copy engine error", (70, 71, 72, 75, 76, 77, 85)),
    ("job", "video, image or security engine error", (82, 83, 84, 86, 88, 89, *range(96, 106))),
    ("unused", "DMA engine error (FIFO_ERROR_*, unused)", tuple(range(1, 8))),
    ("unused", "graphics engine error (GR_ERROR_*, unused)", (9, 10, 12)),
    (
        "unused",
        "unused number",
        (
            14,
            15,
            16,
            17,
            18,
            20,
            21,
            22,
            23,
            24,
            26,
            27,
            28,
            29,
            30,
            33,
            34,
            35,
            36,
            47,
            49,
            50,
            51,
            52,
            53,
            55,
            65,
            73,
            81,
            87,
            91,
        ),
    ),
    ("unused", "display error (an H100 drives none)", (19, 56, *range(111, 119))),
    ("unused", "power management unit cannot use its flash (SPI_PMU_RPC_*)", (122, 123, 124)),
    ("blackwell", "NVLink 5 error (Blackwell)", tuple(range(144, 151))),
    ("blackwell", "Blackwell only", (*range(126, 136), 142, 155, *range(159, 167), 170)),
)
# Rows with a kind of their own.
_OWN: Mapping[int, tuple[str, _Kind]] = {
    74: (
        "NVLink error (NVLINK_ERROR)",
        (_WARN, _LINK, Action.NONE, False,
         "Decode the seven registers of the message (NVIDIA's NVLink workflow). If it repeats, drain "
         "the node and reset the GPUs; if several GPUs report it, suspect the switch."),
    ),
    79: (
        "GPU has fallen off the bus",
        (_FATAL, _GPU, Action.REBOOT, True,
         "A reset cannot reach it: reboot the node. Check the kernel log for PCIe errors of its port, and for "
         "thermal or power events just before. If it happens again within a week, request a replacement."),
    ),
    151: (
        "key rotation error (KEY_ROTATION_ERROR, confidential computing)",
        (_FATAL, _DRIVER, Action.REBOOT, True, "Restart the virtual machine, then check again."),
    ),
    154: (
        "GPU recovery action changed",
        (_FATAL, _GPU, Action.REBOOT, True,
         "The text names the action that the driver requires: a reset, a reboot or a drain. Do that."),
    ),
    156: (
        "resource retired (RESOURCE_RETIREMENT_EVENT)",
        (_WARN, _GPU, Action.RESET_GPU, True, "Running jobs are not affected. Reset the GPU once it is idle."),
    ),
    157: (
        "resource could not be retired (RESOURCE_RETIREMENT_FAILURE)",
        (_WARN, _GPU, Action.CONTACT_SUPPORT, True, "No spare is left: plan the GPU's replacement."),
    ),
    168: (
        "less GPU memory than built in (REDUCED_GPU_MEMORY_CAPACITY)",
        (_WARN, _GPU, Action.CONTACT_SUPPORT, True, "Plan the GPU's replacement."),
    ),
}  # fmt: skip


def unknown(number: int) -> Fault:
    """The row of a number that is not in the catalogue: a warning that never drains."""
    return _row(
        number, "unknown Xid", _KINDS["unused"], "none: this number is not in the catalogue"
    )


def _row(number: int, title: str, kind: _Kind, source: str = _SOURCE) -> Fault:
    code, consequence = f"XID{number}", number in CONSEQUENCES
    return row(code, title, kind[:4], kind[4], source, consequence=consequence)


def _rows() -> Iterator[Fault]:
    for number, (kind, title) in _ROWS.items():
        yield _row(number, title, _KINDS[kind])
    for kind, title, numbers in _RANGES:
        for number in numbers:
            yield _row(number, title, _KINDS[kind])
    for number, (title, own) in _OWN.items():
        yield _row(number, title, own)


XIDS: tuple[Fault, ...] = tuple(sorted(_rows(), key=lambda fault: int(fault.code[3:])))
"""By number."""

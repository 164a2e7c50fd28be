"""What each hardware fault changes in NVML, in sysfs and in the kernel log. Pure.

Lines of the common Xids (13, 31, 48, 63, 74, 79, 94, 119, 154) are those of public reports; for the
rare ones only number and form are real. Source of the Xids' meanings and recovery actions: NVIDIA's
Xid catalogue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from testbed.faults.arguments import Args
from testbed.faults.effects.effects import Effects, Remedy, State
from testbed.h100 import sysfs
from testbed.h100.board import GPU_BUSES, HCAS, gpu_address, hca_address
from testbed.h100.kmsg import KERNEL_INFO

_XID_EVENT = 0x8
"""nvmlEventTypeXidCriticalError."""


# -- recovery action: field 230 and Xid 154 -------------------------------------------------------------------------

RECOVERY: Mapping[str, tuple[int, str, Remedy]] = {
    "reset": (1, "GPU Reset Required", Remedy.RESET),
    "reboot": (2, "Node Reboot Required", Remedy.POWER_CYCLE),
    "drain-p2p": (3, "Drain P2P", Remedy.RESET),
    "drain-and-reset": (4, "Drain and Reset", Remedy.RESET),
}
"""Argument -> value of NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, the driver's text, the remedy."""


def recovery_action(args: Args, _: State) -> Effects:
    gpu = int(args["gpu"])
    return _requires(str(args["action"]), Effects(gpu=gpu))


def _requires(action: str, effects: Effects) -> Effects:
    """``effects`` of a GPU, with the recovery action that the driver reports."""
    number, text, remedy = RECOVERY[action]
    gpu = effects.gpu
    assert gpu is not None  # noqa: S101 - only faults of one GPU require an action
    action_text, none_text = f"0x{number:x} ({text})", "0x0 (None)"
    return replace(
        effects,
        nvml={**effects.nvml, f"gpu.{gpu}.recovery_action": number},
        log=(*effects.log, _xid_line(gpu, 154, _CHANGED.format(none_text, action_text))),
        log_when_healed=(_xid_line(gpu, 154, _CHANGED.format(action_text, none_text)),)
        * (remedy is Remedy.RESET),
        remedy=remedy,
    )


_CHANGED = "GPU recovery action changed from {} to {}"


# -- faults of a GPU ------------------------------------------------------------------------------------------------


def gpu_lost(args: Args, state: State) -> Effects:
    """Every call returns GPU_IS_LOST, the configuration space reads all ones, the root port reports an error."""
    gpu = int(args["gpu"])
    address, folder = gpu_address(gpu), sysfs.gpu_folder(gpu)
    log = (
        f"NVRM: GPU at PCI:{address[:-2]}: {state[f'gpu.{gpu}.uuid']}",
        f"NVRM: GPU Board Serial Number: {state[f'gpu.{gpu}.serial']}",
        _xid_line(gpu, 79, "GPU has fallen off the bus."),
        f"NVRM: GPU {address}: GPU has fallen off the bus.",
    )
    return _requires(
        "reboot",
        Effects(
            nvml={f"gpu.{gpu}.lost": 1},
            sysfs={
                f"{folder}/config": b"\xff" * 256,
                f"{folder}/current_link_speed": "Unknown",
                f"{folder}/current_link_width": "63",
                f"{sysfs.root_port_folder(gpu)}/aer_dev_fatal": sysfs.fatal(SDES=1),
            },
            log=log,
            event=(gpu, _XID_EVENT, 79),
            gpu=gpu,
        ),
    )


def gpu_count(args: Args, _: State) -> Effects:
    """The last GPUs are on the bus, but the driver cannot initialize them: NVML does not count them."""
    count = int(args["count"])
    log = []
    for gpu in range(count, len(GPU_BUSES)):
        where = f"NVRM: GPU {gpu_address(gpu)}:"
        log += [
            f"{where} RmInitAdapter failed! (0x62:0xffff:2477)",
            f"{where} rm_init_adapter failed, device minor number {gpu}",
        ]
    return Effects(nvml={"count": count}, log=tuple(log), remedy=Remedy.POWER_CYCLE)


def ecc(args: Args, _: State) -> Effects:
    """A double-bit error: the volatile counter is cleared by the reset, the aggregate one stays."""
    gpu = int(args["gpu"])
    where = "in the framebuffer at physAddr 0x18f31d80 partition 16, subpartition 3."
    text = f"An uncorrectable double bit error (DBE) has been detected on GPU {where}"
    return _requires(
        "reset",
        Effects(
            nvml={f"gpu.{gpu}.ecc.uncorr.vol.dram": 1},
            wear={f"gpu.{gpu}.ecc.uncorr.agg.dram": 1},
            log=(_xid_line(gpu, 48, text),),
            event=(gpu, _XID_EVENT, 48),
            gpu=gpu,
        ),
    )


def row_remap_pending(args: Args, _: State) -> Effects:
    gpu = int(args["gpu"])
    text = "Row Remapper: New row (0x0000000018f31d80) marked for remapping, reset gpu to activate."
    return _requires(
        "drain-and-reset",
        Effects(
            nvml={f"gpu.{gpu}.remap.pending": 1},
            wear={f"gpu.{gpu}.remap.unc": 1, f"gpu.{gpu}.ecc.uncorr.agg.dram": 1},
            log=(_xid_line(gpu, 63, text),),
            event=(gpu, _XID_EVENT, 63),
            gpu=gpu,
        ),
    )


def row_remap_failed(args: Args, _: State) -> Effects:
    """No spare row is left: the GPU must be replaced."""
    gpu = int(args["gpu"])
    return Effects(
        nvml={
            f"gpu.{gpu}.remap.failure": 1,
            f"gpu.{gpu}.histo.none": 1,
            f"gpu.{gpu}.histo.max": 2559,
        },
        log=(
            _xid_line(
                gpu, 64, "Row Remapper: Row remapping failed, no spare rows are left for bank."
            ),
        ),
        event=(gpu, _XID_EVENT, 64),
        remedy=Remedy.REPLACE,
        gpu=gpu,
    )


def nvlink_down(args: Args, _: State) -> Effects:
    gpu, link = int(args["gpu"]), int(args["link"])
    key = f"gpu.{gpu}.link.{link}"
    text = f"NVLink: fatal error detected on link {link}(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
    return _requires(
        "reset",
        Effects(
            nvml={f"{key}.state": 0, f"{key}.crc": 12345, f"{key}.replay": 7, f"{key}.recovery": 3},
            log=(_xid_line(gpu, 74, text),),
            event=(gpu, _XID_EVENT, 74),
            gpu=gpu,
        ),
    )


def thermal(args: Args, _: State) -> Effects:
    """Above the slowdown temperature: hardware and software throttle it (bits 0x8, 0x20, 0x40)."""
    gpu = f"gpu.{args['gpu']}"
    hot: dict[str, int | str] = {
        "temp": 91,
        "mem_temp": 98,
        "clock_sm": 810,
        "clock_graphics": 810,
        "violation.1": "0+900000000/s@injected",
        "held.sw_heat": "0+100000000/s@injected",
        "held.hw_heat": "0+800000000/s@injected",
    }
    return Effects(
        nvml={f"{gpu}.clocks_event": 0x68, **{f"{gpu}.{key}": value for key, value in hot.items()}}
    )


def power_brake(_: Args, __: State) -> Effects:
    """The chassis makes every GPU draw less power (bits 0x8 and 0x80), as after a power supply failure."""
    return Effects(
        nvml={
            "gpu.*.clocks_event": 0x88,
            "gpu.*.clock_sm": 705,
            "gpu.*.clock_graphics": 705,
            "gpu.*.held.power_brake": "0+1000000000/s@injected",
        }
    )


def pcie_width(args: Args, _: State) -> Effects:
    gpu, width = int(args["gpu"]), int(args["width"])
    return Effects(
        nvml={f"gpu.{gpu}.pcie_width": width},
        sysfs={f"{sysfs.gpu_folder(gpu)}/current_link_width": str(width)},
        remedy=Remedy.POWER_CYCLE,
        gpu=gpu,
    )


def nvml_slow(args: Args, _: State) -> Effects:
    return Effects(nvml={f"{scope}.ms.*": args["ms"] for scope in ("sys", "gpu.*")})


def nvml_hung(_: Args, __: State) -> Effects:
    return Effects(nvml={f"{scope}.hang.*": "D" for scope in ("sys", "gpu.*")})


def nvml_unkillable(_: Args, __: State) -> Effects:
    """A leaked driver lock: a process inside the driver survives SIGKILL until the machine reboots."""
    return Effects(
        nvml={f"{scope}.hang.*": "K" for scope in ("sys", "gpu.*")}, remedy=Remedy.POWER_CYCLE
    )


# -- any Xid ----------------------------------------------------------------------------------------------------------

_LIKE: Mapping[int, Callable[[Args, State], Effects]] = {
    48: ecc,
    63: row_remap_pending,
    64: row_remap_failed,
    74: nvlink_down,
    79: gpu_lost,
}
"""Xids that have their own kind of fault."""

_PROCESS = "pid=4242, name=python3, "

_XIDS: Mapping[int, tuple[str, str | None]] = {
    13: (_PROCESS + "Graphics SM Warp Exception on (GPC 2, TPC 1, SM 0): Out Of Range Address", None),
    31: (_PROCESS + "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted "
         "@ 0x7f2a_c0000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ", None),
    43: (_PROCESS + "Ch 00000008", None),
    45: (_PROCESS + "Ch 00000008", None),
    46: ("GPU timeout, GPU stopped processing", "reset"),
    62: ("0x3b1b(19c0) 00000000 00000000", "reset"),
    92: ("High single-bit ECC error rate", None),
    94: (_PROCESS + "Contained: SM (0x1). RST: No, D-RST: No", None),
    95: ("Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No", "reset"),
    109: (_PROCESS + "CTX SWITCH TIMEOUT, Info 0x2c014", "reset"),
    110: ("SEC fault error", "reset"),
    119: (_PROCESS + "Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76 "
          "(GSP_RM_CONTROL)", "reset"),
    120: ("GSP task exception: load page fault (cause:0xd) @ pc:0x1a3c2c4", "reset"),
    136: ("ALI Training Fail on link 3", "reset"),
    140: ("ECC unrecovered error escape", "reset"),
    143: ("GPU initialization error", "reset"),
    158: ("GPU fatal timeout", "reset"),
}  # fmt: skip
"""Xid -> (the driver's text, the recovery action that it reports)."""


def xid(args: Args, state: State) -> Effects:
    number, gpu = int(args["number"]), int(args["gpu"])
    if number in _LIKE:
        return _LIKE[number]({"gpu": gpu, "link": 0}, state)
    if number == 154:
        return recovery_action({"gpu": gpu, "action": "reset"}, state)
    text, action = _XIDS.get(number, ("unknown error", None))
    effects = Effects(log=(_xid_line(gpu, number, text),), event=(gpu, _XID_EVENT, number), gpu=gpu)
    return _requires(action, effects) if action else effects


def _xid_line(gpu: int, number: int, text: str) -> str:
    return f"NVRM: Xid (PCI:{gpu_address(gpu)[:-2]}): {number}, {text}"


# -- InfiniBand -------------------------------------------------------------------------------------------------------


def ib_down(args: Args, _: State) -> Effects:
    """As with an unplugged cable."""
    port = f"{sysfs.hca_folder(str(args['hca']))}/ports/1"
    unplugged, plugged = _cable_lines(str(args["hca"]))
    return Effects(
        sysfs={
            f"{port}/state": "1: DOWN",
            f"{port}/phys_state": "2: Polling",
            f"{port}/rate": "2.5 Gb/sec (1X SDR)",
        },
        sysfs_wear={f"{port}/counters/link_downed": 1},
        log=(unplugged,),
        log_when_healed=(plugged,),
        log_prio=KERNEL_INFO,
    )


def link_flap(args: Args, _: State) -> Effects:
    """Down and up again, so fast that only the counters and the log show it."""
    hca, times = str(args["hca"]), int(args["times"])
    counters = f"{sysfs.hca_folder(hca)}/ports/1/counters"
    return Effects(
        sysfs_wear={f"{counters}/link_downed": times, f"{counters}/link_error_recovery": times},
        log=_cable_lines(hca) * times,
        log_prio=KERNEL_INFO,
    )


def _cable_lines(hca: str) -> tuple[str, str]:
    index = HCAS.index(hca)
    where = f"mlx5_core {hca_address(index)}: Port module event: module {index}, Cable"
    return f"{where} unplugged", f"{where} plugged"

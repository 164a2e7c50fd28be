"""Faults of a GPU's state that are not in the kernel log: running counters, modes, versions, use. Pure.

A running counter is written "BASE+RATE/s@injected"; the last word is replaced by the time of the
injection.
"""

from __future__ import annotations

from collections.abc import Mapping

from testbed.faults.arguments import Args
from testbed.faults.effects.effects import Effects, Remedy, State
from testbed.h100 import sysfs

_REPLAYS_WHEN_HEALTHY = 150
"""As in nvmlsim.c."""


def nvlink_errors(args: Args, _: State) -> Effects:
    """The link stays up and loses data: hundreds of CRC errors, and sometimes a retraining."""
    key = f"gpu.{args['gpu']}.link.{args['link']}"
    return Effects(
        nvml={
            f"{key}.crc": "0+500/s@injected",
            f"{key}.replay": "0+5/s@injected",
            f"{key}.recovery": "1+0.1/s@injected",
        },
        remedy=Remedy.RESET,
        gpu=int(args["gpu"]),
    )


def pcie_replays(args: Args, _: State) -> Effects:
    """A bad contact: two packets a second are replayed."""
    return Effects(
        nvml={f"gpu.{args['gpu']}.pcie_replay": f"{_REPLAYS_WHEN_HEALTHY}+2/s@injected"},
        remedy=Remedy.POWER_CYCLE,
        gpu=int(args["gpu"]),
    )


def pcie_speed(args: Args, _: State) -> Effects:
    """The link trained at the lowest speed. The GPU is busy, so this is not power saving."""
    gpu = int(args["gpu"])
    return Effects(
        nvml={f"gpu.{gpu}.pcie_gen": 1, f"gpu.{gpu}.clocks_event": 0},
        sysfs={f"{sysfs.gpu_folder(gpu)}/current_link_speed": "2.5 GT/s PCIe"},
        remedy=Remedy.POWER_CYCLE,
        gpu=gpu,
    )


def sram_threshold(args: Args, _: State) -> Effects:
    """The GPU's lifetime count of uncorrected SRAM errors exceeds the threshold."""
    gpu = int(args["gpu"])
    return Effects(
        nvml={f"gpu.{gpu}.sram_threshold": 1, f"gpu.{gpu}.ecc.uncorr.agg.sram": 9},
        remedy=Remedy.REPLACE,
        gpu=gpu,
    )


def row_remap_low(args: Args, _: State) -> Effects:
    gpu = int(args["gpu"])
    return Effects(
        nvml={f"gpu.{gpu}.histo.max": 2557, f"gpu.{gpu}.histo.low": 3, f"gpu.{gpu}.remap.corr": 21},
        remedy=Remedy.REPLACE,
        gpu=gpu,
    )


def repair_pending(args: Args, _: State) -> Effects:
    gpu = int(args["gpu"])
    return Effects(nvml={f"gpu.{gpu}.repair.channel": 1}, remedy=Remedy.RESET, gpu=gpu)


FABRIC: Mapping[str, Mapping[str, int]] = {
    "not-started": {"state": 1},
    "in-progress": {"state": 2},
    "failed": {"state": 3, "status": 999},
    "route-unhealthy": {"state": 3, "health": 0x1 << 4},
}
"""Argument -> what nvmlDeviceGetGpuFabricInfoV returns for every GPU."""


def fabric(args: Args, _: State) -> Effects:
    """The fabric manager serves the whole board, so all GPUs report the same."""
    fields = FABRIC[str(args["state"])]
    return Effects(nvml={f"gpu.*.fabric.{key}": value for key, value in fields.items()})


MODES: Mapping[str, Mapping[str, int]] = {
    "persistence-off": {"persistence": 0},
    "ecc-off": {"ecc": 0},
    "ecc-off-pending": {"ecc_pending": 0},
    "mig-on": {"mig": 1},
    "compute-exclusive": {"compute_mode": 3},
    "compute-prohibited": {"compute_mode": 2},
}
"""Argument -> the changed mode of one GPU."""


def gpu_mode(args: Args, _: State) -> Effects:
    fields = MODES[str(args["mode"])]
    return Effects(nvml={f"gpu.{args['gpu']}.{key}": value for key, value in fields.items()})


def vbios_differs(args: Args, _: State) -> Effects:
    """A board from another batch."""
    return Effects(nvml={f"gpu.{args['gpu']}.vbios": "96.00.74.00.0D"})


CALLS: Mapping[str, str] = {
    "handle": "nvmlDeviceGetHandleByIndex_v2",
    "ecc": "nvmlDeviceGetTotalEccErrors",
    "inforom": "nvmlDeviceGetInforomImageVersion",
}
"""Argument -> the call that fails."""


def nvml_error(args: Args, _: State) -> Effects:
    call = CALLS[str(args["call"])]
    return Effects(nvml={f"gpu.{args['gpu']}.rc.{call}": args["code"]})


def gpu_process(args: Args, _: State) -> Effects:
    """A process holds memory of the GPU, like a leftover of a job."""
    gpu, used_bytes = args["gpu"], int(args["mib"]) << 20
    return Effects(
        nvml={f"gpu.{gpu}.proc": f"{args['pid']}:{used_bytes}", f"gpu.{gpu}.mem_used": used_bytes}
    )

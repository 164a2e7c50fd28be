"""Catalogue rows: faults of a GPU's state."""

from __future__ import annotations

from testbed.faults.arguments import Argument
from testbed.faults.effects import gpu_state
from testbed.faults.kinds.kind import AT_ONCE, BY_POWER, BY_REPLACEMENT, BY_RESET, GPU, Kind
from testbed.h100.board import LINKS

GPU_STATES: tuple[Kind, ...] = (
    Kind(
        name="nvlink-errors",
        meaning="an NVLink that is up loses data: CRC errors, replays, recoveries",
        heals=BY_RESET,
        arguments=(GPU, Argument(name="--link", high=LINKS - 1, default=0)),
        effects=gpu_state.nvlink_errors,
    ),
    Kind(
        name="pcie-replays",
        meaning="the GPU's PCIe link replays two packets a second",
        heals=BY_POWER,
        arguments=(GPU,),
        effects=gpu_state.pcie_replays,
    ),
    Kind(
        name="pcie-speed",
        meaning="the GPU's PCIe link runs at generation 1",
        heals=BY_POWER,
        arguments=(GPU,),
        effects=gpu_state.pcie_speed,
    ),
    Kind(
        name="sram-threshold",
        meaning="the GPU's lifetime SRAM errors exceed the threshold",
        heals=BY_REPLACEMENT,
        arguments=(GPU,),
        effects=gpu_state.sram_threshold,
    ),
    Kind(
        name="row-remap-low",
        meaning="memory banks have few spare rows left",
        heals=BY_REPLACEMENT,
        arguments=(GPU,),
        effects=gpu_state.row_remap_low,
    ),
    Kind(
        name="repair-pending",
        meaning="a memory channel waits for a repair by a reset",
        heals=BY_RESET,
        arguments=(GPU,),
        effects=gpu_state.repair_pending,
    ),
    Kind(
        name="fabric",
        meaning="the fabric manager has not joined the GPUs, or reports an unhealthy fabric",
        heals=AT_ONCE,
        arguments=(Argument(name="STATE", choices=tuple(gpu_state.FABRIC)),),
        effects=gpu_state.fabric,
    ),
    Kind(
        name="gpu-mode",
        meaning="a mode of the GPU was changed",
        heals=AT_ONCE,
        arguments=(Argument(name="MODE", choices=tuple(gpu_state.MODES)), GPU),
        effects=gpu_state.gpu_mode,
    ),
    Kind(
        name="vbios-differs",
        meaning="the GPU's VBIOS differs from the others",
        heals=AT_ONCE,
        arguments=(GPU,),
        effects=gpu_state.vbios_differs,
    ),
    Kind(
        name="nvml-error",
        meaning="one NVML call for the GPU fails with this code",
        heals=AT_ONCE,
        arguments=(
            Argument(name="CALL", choices=tuple(gpu_state.CALLS)),
            Argument(name="--code", low=1, high=999, default=999),
            GPU,
        ),
        effects=gpu_state.nvml_error,
    ),
    Kind(
        name="gpu-process",
        meaning="the process PID holds memory of the GPU",
        heals=AT_ONCE,
        arguments=(
            Argument(name="PID", low=1, high=4_194_304),
            GPU,
            Argument(name="--mib", low=1, high=80_000, default=1024),
        ),
        effects=gpu_state.gpu_process,
    ),
)

"""Catalogue rows: faults of fabric, bus and host."""

from __future__ import annotations

from testbed.faults import mounts
from testbed.faults.arguments import Argument
from testbed.faults.effects import host_state
from testbed.faults.kinds.kind import AT_ONCE, BY_ITSELF, BY_POWER, GPU, Kind
from testbed.h100 import sysfs
from testbed.h100.board import HCAS

HCA = Argument(name="--hca", choices=HCAS, default=HCAS[0])

HOST_STATES: tuple[Kind, ...] = (
    Kind(
        name="hca-gone",
        meaning="an InfiniBand card disappears",
        heals=BY_POWER,
        arguments=(HCA,),
        effects=host_state.hca_gone,
    ),
    Kind(
        name="ib-rate",
        meaning="an InfiniBand port runs below its rate",
        heals=AT_ONCE,
        arguments=(Argument(name="--gbps", choices=tuple(host_state.RATES), default="200"), HCA),
        effects=host_state.ib_rate,
    ),
    Kind(
        name="ib-errors",
        meaning="an InfiniBand port counts symbol errors, broken packets and a link integrity error",
        heals=BY_ITSELF,
        arguments=(HCA, Argument(name="--count", low=1, high=60_000, default=500)),
        effects=host_state.ib_errors,
    ),
    Kind(
        name="pcie-aer",
        meaning="the GPU's PCIe link reports errors",
        heals=BY_POWER,
        arguments=(Argument(name="SEVERITY", choices=host_state.AER), GPU),
        effects=host_state.pcie_aer,
    ),
    Kind(
        name="gpu-off-bus",
        meaning="a GPU has left the PCI bus; NVML still lists it",
        heals=BY_POWER,
        arguments=(GPU,),
        effects=host_state.gpu_off_bus,
    ),
    Kind(
        name="nvswitch-gone",
        meaning="an NVSwitch has left the PCI bus",
        heals=BY_POWER,
        arguments=(Argument(name="--switch", high=len(sysfs.NVSWITCHES) - 1, default=0),),
        effects=host_state.nvswitch_gone,
    ),
    Kind(
        name="module-missing",
        meaning="a kernel module is not loaded",
        heals=AT_ONCE,
        arguments=(Argument(name="MODULE", choices=sysfs.MODULES),),
        effects=host_state.module_missing,
    ),
    Kind(
        name="service-stopped",
        meaning="a service of the host has stopped",
        heals=AT_ONCE,
        arguments=(Argument(name="SERVICE", choices=tuple(sysfs.UNITS)),),
        effects=host_state.service_stopped,
    ),
    Kind(
        name="disk-full",
        meaning="the local disk of the node (/tmp) is full",
        heals=AT_ONCE,
        begin=mounts.fill_disk,
        end=mounts.empty_disk,
        until_boot=True,
    ),
    Kind(
        name="disk-read-only",
        meaning="the local disk of the node (/tmp) is read-only, as after an error",
        heals=AT_ONCE,
        begin=mounts.lock_disk,
        end=mounts.unlock_disk,
        until_boot=True,
    ),
)

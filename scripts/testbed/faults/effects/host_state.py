"""Faults of the fabric and the host that show in sysfs: cards, ports, PCIe errors, kernel modules,
services. Pure.
"""

from __future__ import annotations

from testbed.faults.arguments import Args
from testbed.faults.effects.effects import Effects, Remedy, State
from testbed.h100 import sysfs
from testbed.h100.board import HCAS, gpu_address, hca_address
from testbed.h100.kmsg import KERNEL_ERROR, KERNEL_WARNING

RATES = {"200": "200 Gb/sec (4X HDR)", "100": "100 Gb/sec (4X EDR)"}
"""Reduced rate of a 400 Gb/s port -> the kernel's text for it."""

AER = ("corrected", "uncorrected", "fatal")


def hca_gone(args: Args, _: State) -> Effects:
    """The card's firmware failed: the driver removes it, and it leaves the bus."""
    name = str(args["hca"])
    address = hca_address(HCAS.index(name))
    return Effects(
        sysfs={f"class/infiniband/{name}": None, f"bus/pci/devices/{address}": None},
        log=(f"mlx5_core {address}: mlx5_error_sw_reset:249:(pid 7): start",),
        log_prio=KERNEL_ERROR,
        remedy=Remedy.POWER_CYCLE,
    )


def ib_rate(args: Args, _: State) -> Effects:
    """Retrained at a lower rate after a bad lane."""
    port = f"{sysfs.hca_folder(str(args['hca']))}/ports/1"
    return Effects(sysfs={f"{port}/rate": RATES[str(args["gbps"])]})


def ib_errors(args: Args, _: State) -> Effects:
    """A dirty connector: uncorrectable symbols and broken packets."""
    counters = f"{sysfs.hca_folder(str(args['hca']))}/ports/1/counters"
    count = int(args["count"])
    return Effects(
        sysfs_wear={
            f"{counters}/symbol_error": count,
            f"{counters}/port_rcv_errors": count,
            f"{counters}/local_link_integrity_errors": 1,
        }
    )


def pcie_aer(args: Args, _: State) -> Effects:
    """The errors that the GPU's port reports for its link."""
    gpu, kind = int(args["gpu"]), str(args["severity"])
    folder = sysfs.gpu_folder(gpu)
    files = {
        "corrected": ("aer_dev_correctable", sysfs.correctable(BadTLP=900), "Correctable"),
        "uncorrected": ("aer_dev_nonfatal", sysfs.nonfatal(CmpltTO=1), "Uncorrectable (Non-Fatal)"),
        "fatal": ("aer_dev_fatal", sysfs.fatal(SDES=1), "Uncorrectable (Fatal)"),
    }
    name, text, word = files[kind]
    line = f"pcieport {sysfs.root_port(gpu)}: AER: {word} error message received from {gpu_address(gpu)}"
    return Effects(
        sysfs={f"{folder}/{name}": text},
        log=(line,),
        log_prio=KERNEL_WARNING if kind == "corrected" else KERNEL_ERROR,
        remedy=Remedy.POWER_CYCLE,
    )


def nvswitch_gone(args: Args, _: State) -> Effects:
    """The switch has left the bus."""
    address = sysfs.NVSWITCHES[int(args["switch"])]
    return Effects(sysfs={f"bus/pci/devices/{address}": None}, remedy=Remedy.POWER_CYCLE)


def gpu_off_bus(args: Args, _: State) -> Effects:
    """The kernel has removed the device; the driver still lists it."""
    address = gpu_address(int(args["gpu"]))
    return Effects(sysfs={f"bus/pci/devices/{address}": None}, remedy=Remedy.POWER_CYCLE)


def module_missing(args: Args, _: State) -> Effects:
    """As after rmmod, or after booting a kernel without this module."""
    return Effects(sysfs={f"module/{args['module']}": None})


def service_stopped(args: Args, _: State) -> Effects:
    """Its cgroup is gone: systemd removes it when the last process exits."""
    return Effects(sysfs={f"{sysfs.CGROUPS}/{sysfs.UNITS[str(args['service'])]}": None})

"""What faults of the fabric and of the machine change that the kernel shows in sysfs: cards, ports, PCIe errors,
kernel modules, services. Pure.
"""

from __future__ import annotations

from testbed.faults.effects import Effects, Remedy, State
from testbed.faults.words import Args
from testbed.h100 import sysfs
from testbed.h100.board import HCAS, gpu_address, hca_address
from testbed.h100.kmsg import KERNEL_ERROR, KERNEL_WARNING

RATES = {"200": "200 Gb/sec (4X HDR)", "100": "100 Gb/sec (4X EDR)"}
"""What a port of 400 Gb/s comes down to -> the kernel's word for it."""

AER = ("corrected", "uncorrected", "fatal")


def hca_gone(args: Args, _: State) -> Effects:
    """The card's firmware has died: the driver takes it out, and the bus has it no more."""
    name = str(args["hca"])
    address = hca_address(HCAS.index(name))
    return Effects(
        sysfs={f"class/infiniband/{name}": None, f"bus/pci/devices/{address}": None},
        log=(f"mlx5_core {address}: mlx5_error_sw_reset:249:(pid 7): start",),
        log_prio=KERNEL_ERROR,
        remedy=Remedy.POWER_CYCLE,
    )


def ib_rate(args: Args, _: State) -> Effects:
    """Trained again after a bad lane, more slowly."""
    port = f"{sysfs.hca_folder(str(args['hca']))}/ports/1"
    return Effects(sysfs={f"{port}/rate": RATES[str(args["gbps"])]})


def ib_errors(args: Args, _: State) -> Effects:
    """A dirty connector: symbols that even error correction gets wrong, and packets that arrive broken."""
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
    """What the GPU's port reports of its link."""
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
    """The bus does not find it."""
    address = sysfs.NVSWITCHES[int(args["switch"])]
    return Effects(sysfs={f"bus/pci/devices/{address}": None}, remedy=Remedy.POWER_CYCLE)


def gpu_off_bus(args: Args, _: State) -> Effects:
    """The kernel has removed the device, the driver has not noticed yet."""
    address = gpu_address(int(args["gpu"]))
    return Effects(sysfs={f"bus/pci/devices/{address}": None}, remedy=Remedy.POWER_CYCLE)


def module_missing(args: Args, _: State) -> Effects:
    """As after rmmod, or a boot with a kernel that the module was not built for."""
    return Effects(sysfs={f"module/{args['module']}": None})


def service_stopped(args: Args, _: State) -> Effects:
    """Its cgroup is gone, as systemd removes it once the last process has ended."""
    return Effects(sysfs={f"{sysfs.CGROUPS}/{sysfs.UNITS[str(args['service'])]}": None})

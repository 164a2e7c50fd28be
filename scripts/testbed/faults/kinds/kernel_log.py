"""Faults that only the kernel log reports: NVSwitches, PCIe, memory, disks, filesystems, tasks, adapters.

The lines have the form of recorded ones (tests/data/kmsg), with this board's addresses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.faults.arguments import Args, Argument
from testbed.faults.effects.effects import Effects, Remedy, State
from testbed.faults.kinds.kind import BY_ITSELF, BY_POWER, Kind
from testbed.h100.board import gpu_address, hca_address
from testbed.h100.sysfs import root_port_folder

SWITCHES = ("0000:07:00.0", "0000:08:00.0", "0000:09:00.0", "0000:0a:00.0")
"""The four NVSwitches of an HGX H100."""

_SEVERITIES = {"fatal": "Fatal", "nonfatal": "Non-fatal"}
_PROBED = (
    "nvidia-nvswitch: Probing device {}, Vendor Id = 0x10de, Device Id = 0x22a3, Class = 0x68000"
)


def sxid(args: Args, _: State) -> Effects:
    """An error of a switch: its line, then the register lines. Once healed, the driver probes the switch again."""
    address, link = SWITCHES[int(args["switch"])], int(args["link"])
    head = f"nvidia-nvswitch{args['switch']}: SXid (PCI:{address}): {int(args['number']):05d},"
    return Effects(
        log=(
            f"{head} {_SEVERITIES[str(args['severity'])]}, Link {link:02d} as injected (First)",
            f"{head} Severity 5 Engine instance {link:02d} Sub-engine instance 00",
            f"{head} Data {{0x{link:08x}, 0x00000000, 0x00000000, 0x00000000}}",
        ),
        log_when_healed=(_PROBED.format(address),),
        remedy=Remedy.RESET,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """What the kernel logs, and whether only a power cycle repairs it."""

    lines: tuple[str, ...]
    lasting: bool = False


_PORT = root_port_folder(2).rpartition("/")[2]
_GPU, _HCA = gpu_address(2), hca_address(2)
_STACK = ("Call Trace:", " <TASK>", " __schedule+0x2d1/0x870", " schedule+0x55/0xd0")


def _aer(severity: str, bit: str) -> tuple[str, ...]:
    return (
        f"pcieport {_PORT}: AER: {severity} error message received from {_PORT}",
        f"pcieport {_PORT}: PCIe Bus Error: severity={severity}, type=Data Link Layer, (Receiver ID)",
        f"pcieport {_PORT}:   device [8086:352a] error status/mask=00000020/00000000",
        f"pcieport {_PORT}:    {bit}",
    )


KERNEL_LOG: Mapping[str, Logged] = {
    "aer-fatal": Logged(lines=_aer("Uncorrectable (Fatal)", "[ 5] SDES                   (First)"), lasting=True),
    "aer-nonfatal": Logged(lines=_aer("Uncorrectable (Non-Fatal)", "[14] CmpltTO                (First)")),
    "aer-corrected": Logged(lines=_aer("Correctable", "[12] Timeout               ") * 101),
    "dimm-corrected": Logged(
        lines=(
            "EDAC MC1: 262 CE memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 page:0x2031c14 "
            "offset:0x940 grain:32 syndrome:0x0 -  err_code:0x0101:0x0090)",
        )
    ),
    "dimm-uncorrected": Logged(
        lines=(
            "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0 page:0xe16677 "
            "offset:0x0 grain:32 -  err_code:0x00a0:0x0090)",
        ),
        lasting=True,
    ),
    "mce": Logged(
        lines=(
            "mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 7: be00000000800400",
            "mce: [Hardware Error]: TSC 0 ADDR fef4c9e0 ",
        ),
        lasting=True,
    ),
    "nvme-timeout": Logged(
        lines=tuple(f"nvme nvme1: I/O tag {tag} (c00{tag}) QID 2 timeout, aborting req_op:WRITE(1)" for tag in range(5))
    ),
    "nvme-failed": Logged(
        lines=("nvme nvme1: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff",
               "nvme nvme1: Disabling device after reset failure: -19"),
        lasting=True,
    ),
    "disk-error": Logged(lines=("I/O error, dev nvme0n1, sector 131209936 op 0x0:(READ) flags 0x80700 phys_seg 25",)),
    "fs-shutdown": Logged(
        lines=("Aborting journal on device nvme0n1p1-8.", "EXT4-fs (nvme0n1p1): Remounting filesystem read-only"),
        lasting=True,
    ),
    "fs-error": Logged(lines=("EXT4-fs error (device nvme0n1p1): ext4_find_entry:1588: inode #43: comm python3: x",)),
    "nfs-lost": Logged(lines=("nfs: server 10.0.0.5 not responding, still trying",)),
    "oom-job": Logged(
        lines=(
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=step_0,mems_allowed=0-1,oom_memcg=/x,"
            "task_memcg=/system.slice/slurmstepd.scope/job_7/step_0/user/task_0,task=python3,pid=4242,uid=2001",
            "Memory cgroup out of memory: Killed process 4242 (python3) total-vm:87033376kB, anon-rss:60356340kB",
        )
    ),
    "oom-system": Logged(lines=("Out of memory: Killed process 4242 (python3) total-vm:87033376kB, anon-rss:1kB",)),
    "hung-task": Logged(
        lines=("INFO: task python3:4242 blocked for more than 120 seconds.", *_STACK,
               " request_wait_answer+0x14b/0x210", " </TASK>")
    ),
    "hung-driver": Logged(
        lines=("INFO: task python3:4242 blocked for more than 120 seconds.", *_STACK,
               " os_acquire_rwlock_read+0x35/0x50 [nvidia]", " </TASK>")
    ),
    "lockup": Logged(lines=("watchdog: BUG: soft lockup - CPU#43 stuck for 26s! [python3:4242]",)),
    "oops": Logged(lines=("BUG: unable to handle page fault for address: ffffb06c8",), lasting=True),
    "mlx5-health": Logged(
        lines=(f"mlx5_core {_HCA}: device's health compromised - reached miss count",
               f"mlx5_core {_HCA}: synd 0x7: irisc not responding"),
        lasting=True,
    ),
    "mlx5-command": Logged(
        lines=(f"mlx5_core {_HCA}: wait_func:1195:(pid 435): ENABLE_HCA(0x104) timeout. Will cause a leak of a command "
               "resource",),
        lasting=True,
    ),
    "mlx5-module": Logged(
        lines=(f"mlx5_core {_HCA}: Port module event[error]: module 2, Cable error, High Temperature",)
    ),
    "gpu-init": Logged(lines=(f"NVRM: GPU {_GPU}: RmInitAdapter failed! (0x62:0xffff:2477)",)),
}  # fmt: skip
"""Argument of `kernel-log` -> its lines."""


def kernel_log(args: Args, _: State) -> Effects:
    logged = KERNEL_LOG[str(args["what"])]
    return Effects(
        log=logged.lines, remedy=Remedy.POWER_CYCLE if logged.lasting else Remedy.NOTHING
    )


def kernel_line(args: Args, _: State) -> Effects:
    """printk() removes one end of line from the record; the rest is escaped for its readers."""
    text = str(args["text"]).removesuffix("\n")
    return Effects(log=(text,), log_prio=int(args["level"]))


LOG_KINDS: tuple[Kind, ...] = (
    Kind(
        name="sxid",
        meaning="an NVSwitch reports the SXid",
        heals="the driver probes the switch again",
        arguments=(
            Argument(name="NUMBER", low=10_000, high=32_767),
            Argument(name="--switch", high=len(SWITCHES) - 1, default=0),
            Argument(name="--link", high=63, default=28),
            Argument(name="--severity", choices=tuple(_SEVERITIES), default="fatal"),
        ),
        effects=sxid,
    ),
    Kind(
        name="kernel-log",
        meaning="the kernel reports a fault of the host",
        heals=BY_POWER,
        arguments=(Argument(name="WHAT", choices=tuple(KERNEL_LOG)),),
        effects=kernel_log,
    ),
    Kind(
        name="kernel-line",
        meaning="the kernel writes TEXT into its log (facility 0)",
        heals=BY_ITSELF,
        arguments=(Argument(name="TEXT", text=True), Argument(name="--level", high=7, default=4)),
        effects=kernel_line,
    ),
)

"""The kinds of faults, as a literal table; `sandbox kinds` prints it."""

from __future__ import annotations

import signal

from testbed.faults import machine, mounts
from testbed.faults.arguments import Argument
from testbed.faults.effects import hardware
from testbed.faults.effects.hardware import RECOVERY
from testbed.faults.kinds.gpu import GPU_STATES
from testbed.faults.kinds.host import HCA, HOST_STATES
from testbed.faults.kinds.kernel_log import LOG_KINDS
from testbed.faults.kinds.kind import (
    AT_ONCE,
    BY_DRIVER,
    BY_ITSELF,
    BY_POWER,
    BY_REPLACEMENT,
    BY_RESET,
    GPU,
    Kind,
)
from testbed.h100.board import GPU_BUSES, LINKS

__all__ = ["KINDS", "Kind"]

_PATH = Argument(name="PATH", choices=mounts.FILESTORES, default=mounts.FILESTORES[0])


_HARDWARE = (
    Kind(
        name="xid",
        meaning="NVRM reports the Xid, with its effects (79: the GPU is lost, 48: ECC, …)",
        heals=BY_DRIVER,
        arguments=(Argument(name="NUMBER", low=1, high=999), GPU),
        effects=hardware.xid,
    ),
    Kind(
        name="gpu-lost",
        meaning="the GPU falls off the bus: GPU_IS_LOST, Xid 79, configuration space gone",
        heals=BY_POWER,
        arguments=(GPU,),
        effects=hardware.gpu_lost,
    ),
    Kind(
        name="gpu-count",
        meaning="NVML counts fewer GPUs: the last ones do not initialize",
        heals=BY_POWER,
        arguments=(Argument(name="COUNT", high=len(GPU_BUSES) - 1),),
        effects=hardware.gpu_count,
    ),
    Kind(
        name="ecc",
        meaning="uncorrectable double-bit ECC error: Xid 48, counters",
        heals=BY_RESET,
        arguments=(GPU,),
        effects=hardware.ecc,
    ),
    Kind(
        name="row-remap-pending",
        meaning="a row waits to be remapped: Xid 63",
        heals=BY_RESET,
        arguments=(GPU,),
        effects=hardware.row_remap_pending,
    ),
    Kind(
        name="row-remap-failed",
        meaning="no spare row is left: Xid 64",
        heals=BY_REPLACEMENT,
        arguments=(GPU,),
        effects=hardware.row_remap_failed,
    ),
    Kind(
        name="recovery-action",
        meaning="the driver requires an action: field 230, Xid 154",
        heals=BY_DRIVER,
        arguments=(Argument(name="ACTION", choices=tuple(RECOVERY)), GPU),
        effects=hardware.recovery_action,
    ),
    Kind(
        name="nvlink-down",
        meaning="an NVLink is down: Xid 74, error counters",
        heals=BY_RESET,
        arguments=(GPU, Argument(name="--link", high=LINKS - 1, default=0)),
        effects=hardware.nvlink_down,
    ),
    Kind(
        name="ib-down",
        meaning="an InfiniBand port is DOWN, as with an unplugged cable",
        heals=AT_ONCE,
        arguments=(HCA,),
        effects=hardware.ib_down,
    ),
    Kind(
        name="link-flap",
        meaning="an InfiniBand port goes down and up again: only counters and log show it",
        heals=BY_ITSELF,
        arguments=(HCA, Argument(name="--times", low=1, high=100, default=3)),
        effects=hardware.link_flap,
    ),
    Kind(
        name="thermal",
        meaning="the GPU is too hot and slows down",
        heals=AT_ONCE,
        arguments=(GPU,),
        effects=hardware.thermal,
    ),
    Kind(
        name="power-brake",
        meaning="the chassis makes all GPUs draw less power",
        heals=AT_ONCE,
        effects=hardware.power_brake,
    ),
    Kind(
        name="pcie-width",
        meaning="the GPU's PCIe link has fewer lanes than 16",
        heals=BY_POWER,
        arguments=(Argument(name="--width", low=1, high=8), GPU),
        effects=hardware.pcie_width,
    ),
    Kind(
        name="nvml-slow",
        meaning="each NVML call takes longer",
        heals=AT_ONCE,
        arguments=(Argument(name="--ms", low=1, high=60_000, default=500),),
        effects=hardware.nvml_slow,
    ),
    Kind(
        name="nvml-hung",
        meaning="NVML calls do not return (state D, SIGKILL still works)",
        heals=AT_ONCE,
        effects=hardware.nvml_hung,
    ),
    Kind(
        name="nvml-unkillable",
        meaning="NVML calls do not return and their process survives SIGKILL",
        heals=BY_POWER,
        effects=hardware.nvml_unkillable,
    ),
)

_NODE = (
    Kind(
        name="mount-gone",
        meaning="the filestore is not mounted",
        heals=AT_ONCE,
        arguments=(_PATH,),
        begin=mounts.unmount,
        end=mounts.remount,
        until_boot=True,
        exclusive="path",
    ),
    Kind(
        name="mount-hung",
        meaning="the filestore does not answer; processes that touch it cannot be killed",
        heals=AT_ONCE,
        arguments=(_PATH,),
        begin=mounts.hang,
        end=mounts.unhang,
        until_boot=True,
        exclusive="path",
    ),
    Kind(
        name="mount-full",
        meaning="the filestore is full (existing files stay readable)",
        heals=AT_ONCE,
        arguments=(_PATH,),
        begin=mounts.fill,
        end=mounts.unfill,
        until_boot=True,
        exclusive="path",
    ),
    Kind(
        name="mount-read-only",
        meaning="the filestore is read-only",
        heals=AT_ONCE,
        arguments=(_PATH,),
        begin=mounts.make_read_only,
        end=mounts.make_writable,
        until_boot=True,
        exclusive="path",
    ),
    Kind(
        name="run-full",
        meaning="the node's /run is full: no free block and no free inode",
        heals=AT_ONCE,
        begin=mounts.fill_run,
        end=mounts.empty_run,
        until_boot=True,
    ),
    Kind(
        name="state-full",
        meaning="the agent's state folder (/var/lib/holdfast) is full",
        heals=AT_ONCE,
        begin=mounts.fill_state,
        end=mounts.empty_state,
        until_boot=True,
        exclusive="state",
    ),
    Kind(
        name="state-read-only",
        meaning="the agent's state folder is read-only",
        heals=AT_ONCE,
        begin=mounts.lock_state,
        end=mounts.unlock_state,
        until_boot=True,
        exclusive="state",
    ),
    Kind(
        name="state-hung",
        meaning="the agent's state folder does not answer; processes that touch it cannot be killed",
        heals=AT_ONCE,
        begin=mounts.hang_state,
        end=mounts.unhang_state,
        until_boot=True,
        exclusive="state",
    ),
    Kind(
        name="munge-down",
        meaning="munged is not running on the node: its Slurm commands and slurmd cannot authenticate",
        heals=AT_ONCE,
        begin=mounts.hide_munge,
        end=mounts.show_munge,
        until_boot=True,
    ),
    Kind(
        name="power-off",
        meaning="power loss: every process of the node ends at once",
        heals="powered on",
        begin=machine.power_off,
        end=machine.power_on,
    ),
    Kind(
        name="power-cycle",
        meaning="power loss; the node boots after --after seconds (other faults stay)",
        heals=BY_ITSELF,
        arguments=(Argument(name="--after", high=600, default=0),),
        begin=machine.power_cycle,
        passing=True,
    ),
    Kind(
        name="network-cut",
        meaning="the network cable is unplugged; processes keep running",
        heals=AT_ONCE,
        begin=machine.cut,
        end=machine.join,
        until_boot=True,
    ),
    Kind(
        name="slurmd-killed",
        meaning="slurmd is killed and stays down",
        heals="slurmd is started",
        begin=machine.kill_slurmd,
        end=machine.start_slurmd,
        until_boot=True,
    ),
    Kind(
        name="agent-killed",
        meaning="the agent is killed (the health check restarts it)",
        heals=BY_ITSELF,
        begin=machine.kill_agent,
        passing=True,
    ),
    Kind(
        name="clock-skew",
        meaning="slurmd, the agent and new processes see another time",
        heals="the clock is correct again, slurmd and the agent restart",
        arguments=(Argument(name="--seconds", low=-86_400, high=86_400, default=30),),
        begin=machine.skew_clock,
        end=machine.set_clock,
        until_boot=True,
    ),
)

_CLUSTER = (
    Kind(
        name="slurmctld-stopped",
        meaning="the controller does not answer (SIGSTOP)",
        heals="SIGCONT",
        begin=machine.signal_service("slurmctld", signal.SIGSTOP),
        end=machine.signal_service("slurmctld", signal.SIGCONT),
        of_controller=True,
    ),
    Kind(
        name="slurmctld-killed",
        meaning="the controller is killed and stays down",
        heals="slurmctld is started",
        begin=machine.stop_service("slurmctld"),
        end=machine.start_service("slurmctld"),
        of_controller=True,
    ),
    Kind(
        name="slurmdbd-down",
        meaning="slurmdbd is killed and stays down: no accounting",
        heals="slurmdbd is started",
        begin=machine.stop_service("slurmdbd"),
        end=machine.start_service("slurmdbd"),
        of_controller=True,
    ),
    Kind(
        name="slurmctld-restored",
        meaning="the controller restarts with the state of the box's start (of its nodes, or all)",
        heals=BY_ITSELF,
        arguments=(Argument(name="WHAT", choices=("nodes", "all"), default="nodes"),),
        begin=machine.restore_slurmctld,
        passing=True,
        of_controller=True,
    ),
    Kind(
        name="api-server-down",
        meaning="kube-apiserver is killed and stays down",
        heals="kube-apiserver is started",
        begin=machine.stop_service("kube-apiserver"),
        end=machine.start_service("kube-apiserver"),
        of_controller=True,
    ),
    Kind(
        name="bridge-killed",
        meaning="the bridge is killed (it is restarted, as by a Deployment)",
        heals=BY_ITSELF,
        begin=machine.signal_service("bridge", signal.SIGKILL),
        passing=True,
        of_controller=True,
    ),
)

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (*_HARDWARE, *GPU_STATES, *HOST_STATES, *LOG_KINDS, *_NODE, *_CLUSTER)
}

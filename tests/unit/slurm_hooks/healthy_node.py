"""A node that is healthy in everything that the host and fabric checks judge, and changes to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast.findings import Finding
from slurm_hooks import checks
from slurm_hooks.facts import (
    DcgmFacts,
    DiskFacts,
    GpuFacts,
    HostFacts,
    LinkFacts,
    MountFacts,
    MountState,
    NodeFacts,
    NvmlFacts,
    PcieFacts,
    PciFacts,
    PciKind,
    PortDeltas,
    PortFacts,
    ServiceFacts,
    SlurmdFacts,
    SystemFacts,
)

PORT = PortFacts(
    device="mlx5_0",
    port=1,
    state="ACTIVE",
    phys_state="LinkUp",
    link_layer="InfiniBand",
    rate_gbps=400.0,
    best_gbps=400.0,
    seen_active=True,
    downs_age_s=(),
    firmware="28.39.1002",
    board="MT_0000000838",
    deltas=PortDeltas(
        symbol_ber=0.0,
        integrity=0,
        overruns=0,
        recoveries_per_min=0.0,
        receive_errors_per_s=0.0,
        discards_per_s=0.0,
    ),
)
LINK = LinkFacts(device="mlx5_0", minutes=200.0, effective_ber=1e-15, symbol_ber=0.0)
HOST = HostFacts(
    memory_total_bytes=2000 << 30,
    memory_available_bytes=1000 << 30,
    load=(1.0, 1.0, 1.0),
    cpus=8,
    clock_synced=True,
    clock_error_s=0.001,
    disks=(DiskFacts(path="/", free_bytes=50, total_bytes=100, free_inodes=50, inodes=100),),
)
SYSTEM = SystemFacts(
    modules=frozenset(
        {"nvidia", "nvidia_uvm", "nvidia_peermem", "gdrdrv"}
        | {"ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib"}
    ),
    services=(ServiceFacts(name="fabricmanager", running=True, how="process 7", ran=True),),
    old_zombies=0,
    uptime_s=9999.0,
)
GPU = PcieFacts(
    pci="0000:53:00",
    width=16,
    max_width=16,
    answers=True,
    correctable=0,
    nonfatal=0,
    fatal=0,
    correctable_per_min=0.0,
    nonfatal_new=0,
    fatal_new=0,
)
SWITCH = PcieFacts(pci="0000:05:00.0", kind=PciKind.NVSWITCH, answers=True)
WELL = NodeFacts(
    expected_gpus=1,
    nvml=NvmlFacts(count=1, gpus=(GpuFacts(index=0, uuid="GPU-0", pci="0000:53:00"),)),
    ports=(PORT,),
    pci=PciFacts(devices=(GPU, SWITCH)),
    host=HOST,
    system=SYSTEM,
    slurmd=SlurmdFacts(answers=True, version="24.11.5", heard_s=4.0),
    dcgm=DcgmFacts(overall="Healthy"),
    links=(LINK,),
    mounts=(
        MountFacts(
            path="/m",
            state=MountState.OK,
            latency_s=0.01,
            free_bytes=5,
            total_bytes=9,
            fs_type="nfs4",
            source="filer:/m",
        ),
    ),
)
MINE = (
    "pci_devices", "pcie_aer", "dcgm", "mounts", "infiniband", "infiniband_errors",
    "infiniband_ber", "infiniband_firmware", "disks", "memory", "cpu_load", "tasks", "kernel_modules", "services",
    "slurmd", "clock_sync",
)  # fmt: skip


def judged(name: str, facts: NodeFacts, **limits: Any) -> list[tuple[str, str]]:
    return [(found.code, found.subject) for found in findings(name, facts, **limits)]


def findings(name: str, facts: NodeFacts, **limits: Any) -> list[Finding]:
    check = checks.load(name)
    return list(check.judge(facts, check.limits(**limits)))


def port(**change: Any) -> NodeFacts:
    return replace(WELL, ports=(replace(PORT, **change),))


def port_deltas(**change: Any) -> NodeFacts:
    return port(deltas=replace(PORT.deltas, **change))


def on_bus(*devices: PcieFacts, gone: tuple[tuple[PciKind, str], ...] = ()) -> NodeFacts:
    return replace(WELL, pci=PciFacts(devices=devices, gone=gone))


def mount(**change: Any) -> NodeFacts:
    assert WELL.mounts is not None
    return replace(WELL, mounts=(replace(WELL.mounts[0], **change),))


def disk(**change: Any) -> NodeFacts:
    return replace(WELL, host=replace(HOST, disks=(replace(HOST.disks[0], **change),)))


def host(**change: Any) -> NodeFacts:
    return replace(WELL, host=replace(HOST, **change))


def system(**change: Any) -> NodeFacts:
    return replace(WELL, system=replace(SYSTEM, **change))


def service(**change: Any) -> NodeFacts:
    return system(services=(replace(SYSTEM.services[0], **change),))

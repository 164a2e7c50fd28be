"""Checks of host, services, mounts, InfiniBand and the PCI bus: what each sees, and what it leaves be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.findings import Finding
from holdfast.vocabulary import Severity
from slurm_hooks import checks
from slurm_hooks.agent.judge import fold
from slurm_hooks.config import CheckConfig
from slurm_hooks.facts import (
    DcgmFacts,
    DcgmIncident,
    DiskFacts,
    DStateTask,
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
    PortFacts,
    PortNews,
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
    news=PortNews(
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
    return list(check.judge(facts, check.Limits(**limits)))


def port(**change: Any) -> NodeFacts:
    return replace(WELL, ports=(replace(PORT, **change),))


def news(**change: Any) -> NodeFacts:
    return port(news=replace(PORT.news, **change))


@pytest.mark.parametrize("name", MINE)
def test_a_healthy_node_raises_nothing_and_shows_its_values(name: str) -> None:
    assert judged(name, WELL) == []
    check = checks.load(name)
    shown = list(check.show(WELL, check.Limits()))
    assert shown
    assert all(reading.value and reading.limit for reading in shown)


@pytest.mark.parametrize("name", MINE)
def test_what_nobody_looked_at_is_no_opinion(name: str) -> None:
    dark = NodeFacts(expected_gpus=8)
    assert judged(name, dark) == []
    assert list(checks.load(name).show(dark, checks.load(name).Limits())) == []


@pytest.mark.parametrize("name", MINE)
def test_half_a_reading_is_no_fault(name: str) -> None:
    """Every optional value missing."""
    dim = NodeFacts(
        expected_gpus=0,
        ports=(PortFacts(device="mlx5_0", port=1, state="", link_layer="InfiniBand"),),
        pci=PciFacts(devices=(PcieFacts(pci="0000:53:00"),)),
        host=HostFacts(),
        system=SystemFacts(services=(ServiceFacts(name="dcgm", running=None),)),
        slurmd=SlurmdFacts(answers=True),
        dcgm=DcgmFacts(overall="Healthy"),
        mounts=(MountFacts(path="/m", state=MountState.OK),),
    )
    assert judged(name, dim) == []
    list(checks.load(name).show(dim, checks.load(name).Limits()))


# --- InfiniBand -----------------------------------------------------------------------------------


def test_a_port_that_is_slower_than_it_was() -> None:
    assert judged("infiniband", port(rate_gbps=200.0)) == [("IB_RATE", "mlx5_0/1")]
    assert judged("infiniband", port(rate_gbps=200.0, best_gbps=None)) == []
    assert judged("infiniband", WELL, min_rate_gbps=800) == [("IB_RATE", "mlx5_0/1")]
    down = port(rate_gbps=2.5, state="DOWN")
    assert judged("infiniband", down) == [("IB_DOWN", "mlx5_0/1")], "the cause, not its consequence"


def test_a_card_that_is_gone_or_renamed() -> None:
    gone = replace(PORT, present=False, state="")
    other = replace(PORT, device="mlx5_9")
    (found,) = findings("infiniband", replace(WELL, ports=(gone,)))
    assert (found.code, found.detail) == ("IB_MISSING", "InfiniBand card mlx5_0 is gone")
    renamed = replace(WELL, ports=(other, replace(gone, now_called="mlx5_9")))
    assert "is called mlx5_9 now" in findings("infiniband", renamed)[0].detail
    wanted = frozenset({"mlx5_0", "mlx5_1"})
    assert judged("infiniband", WELL, hcas=wanted) == [("IB_MISSING", "mlx5_1")]
    assert judged("infiniband", renamed, hcas=frozenset({"mlx5_9"})) == []
    ethernet = replace(gone, link_layer="Ethernet")
    assert judged("infiniband", replace(WELL, ports=(PORT, replace(ethernet, device="x")))) == []


@pytest.mark.parametrize(
    ("ber", "code"),
    [(0.0, None), (5e-15, None), (6e-15, "IB_BER_RISING"), (2e-14, "IB_BER"), (None, None)],
)
def test_symbol_errors(ber: float | None, code: str | None) -> None:
    expected = [] if code is None else [(code, "mlx5_0/1")]
    assert judged("infiniband_errors", news(symbol_ber=ber)) == expected


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"integrity": 1}, "1 link integrity errors"),
        ({"overruns": 2}, "2 buffer overruns"),
        ({"recoveries_per_min": 5.5}, "5.5 link recoveries a minute"),
        ({"receive_errors_per_s": 11.0}, "11 receive errors a second"),
        ({"recoveries_per_min": 5.0, "receive_errors_per_s": 10.0}, None),
        ({"discards_per_s": 1e6}, None),
    ],
)
def test_errors_of_a_port(change: dict[str, float], words: str | None) -> None:
    found = findings("infiniband_errors", news(**change))
    assert [f.code for f in found] == (["IB_ERRORS"] if words else [])
    if words:
        assert words in found[0].detail


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"effective_ber": 6e-12}, "IB_BER_RISING"),
        ({"effective_ber": 2e-11}, "IB_BER"),
        ({"symbol_ber": 6e-15}, "IB_BER_RISING"),
        ({"symbol_ber": 2e-14}, "IB_BER"),
        ({"effective_ber": 2e-11, "minutes": 124.0}, None),
        ({"effective_ber": None, "symbol_ber": None}, None),
    ],
)
def test_bit_error_rates_of_a_link(change: dict[str, Any], code: str | None) -> None:
    found = judged("infiniband_ber", replace(WELL, links=(replace(LINK, **change),)))
    assert found == ([(code, "mlx5_0")] if code else [])


def test_firmware_that_differs_from_its_neighbours() -> None:
    cards = [replace(PORT, device=f"mlx5_{i}") for i in range(3)]
    odd = replace(PORT, device="mlx5_3", firmware="28.30.1000")
    facts = replace(WELL, ports=(*cards, odd))
    assert judged("infiniband_firmware", facts) == [("IB_FIRMWARE", "mlx5_3")]
    assert (
        judged("infiniband_firmware", replace(WELL, ports=(*cards, replace(odd, board="x")))) == []
    )
    assert judged("infiniband_firmware", facts, versions=frozenset({"28.30.1000"})) == [
        ("IB_FIRMWARE", f"mlx5_{i}") for i in range(3)
    ]


# --- PCI ------------------------------------------------------------------------------------------


def on_bus(*devices: PcieFacts, gone: tuple[tuple[PciKind, str], ...] = ()) -> NodeFacts:
    return replace(WELL, pci=PciFacts(devices=devices, gone=gone))


def test_devices_that_left_the_bus() -> None:
    gone = ((PciKind.GPU, "0000:53:00"), (PciKind.HCA, "0000:54:00.0"))
    assert judged("pci_devices", on_bus(SWITCH, gone=gone)) == [("PCI_GPU_GONE", "GPU-0")]
    switch = ((PciKind.NVSWITCH, "0000:05:00.0"),)
    assert judged("pci_devices", on_bus(GPU, gone=switch)) == [("NVSWITCH_GONE", "0000:05:00.0")]


def test_fewer_devices_than_there_should_be() -> None:
    assert judged("pci_devices", on_bus(SWITCH)) == [("PCI_GPU_GONE", "node")]
    assert judged("pci_devices", WELL, nvswitches=4) == [("NVSWITCH_GONE", "node")]
    assert judged("pci_devices", on_bus(GPU, *[SWITCH] * 4), nvswitches=4) == []


def test_a_device_that_reads_as_all_ones() -> None:
    dead = on_bus(replace(GPU, answers=False), SWITCH)
    (found,) = findings("pci_devices", dead)
    assert (found.code, found.subject, found.gpu) == ("PCI_DEVICE_SILENT", "GPU-0", 0)
    assert judged("pci_devices", on_bus(replace(GPU, answers=None))) == []


def test_pcie_errors() -> None:
    assert judged("pcie_aer", on_bus(replace(GPU, fatal_new=1))) == [("PCIE_AER_FATAL", "GPU-0")]
    assert judged("pcie_aer", on_bus(replace(GPU, nonfatal_new=1))) == [("PCIE_AER", "GPU-0")]
    assert judged("pcie_aer", on_bus(replace(GPU, correctable_per_min=31.0))) == []
    assert judged("pcie_aer", on_bus(replace(GPU, correctable_per_min=32.0))) == [
        ("PCIE_AER", "GPU-0")
    ]
    assert judged("pcie_aer", on_bus(replace(GPU, fatal=900, fatal_new=None))) == []


# --- mounts and disks -----------------------------------------------------------------------------


def mount(**change: Any) -> NodeFacts:
    assert WELL.mounts is not None
    return replace(WELL, mounts=(replace(WELL.mounts[0], **change),))


def test_a_mount_from_elsewhere_a_slow_one_and_one_without_inodes() -> None:
    assert judged("mounts", WELL, sources={"/m": "nfs4 filer:/m"}) == []
    assert judged("mounts", WELL, sources={"/m": "nfs4"}) == []
    assert judged("mounts", WELL, sources={"/m": "lustre"}) == [("MOUNT_WRONG", "/m")]
    assert judged("mounts", WELL, sources={"/m": "nfs4 other:/m"}) == [("MOUNT_WRONG", "/m")]
    assert judged("mounts", mount(latency_s=1.5)) == [("MOUNT_SLOW", "/m")]
    assert judged("mounts", mount(free_inodes=0, inodes=100)) == [("MOUNT_FULL", "/m")]
    assert judged("mounts", mount(free_inodes=0, inodes=0)) == [], "it does not count them"


def disk(**change: Any) -> NodeFacts:
    return replace(WELL, host=replace(HOST, disks=(replace(HOST.disks[0], **change),)))


def test_disks() -> None:
    assert judged("disks", disk(free_bytes=1)) == [("DISK_FULL", "/")]
    assert judged("disks", disk(free_inodes=1)) == [("DISK_FULL", "/")]
    assert judged("disks", disk(read_only=True, free_bytes=0)) == [], "an image is always full"
    assert judged("disks", disk(read_only=True, turned_read_only=True)) == [("DISK_READ_ONLY", "/")]


# --- the machine ----------------------------------------------------------------------------------


def host(**change: Any) -> NodeFacts:
    return replace(WELL, host=replace(HOST, **change))


def test_memory_load_and_clock() -> None:
    assert judged("memory", host(memory_available_bytes=1 << 30)) == [("MEMORY_LOW", "node")]
    assert judged("memory", WELL, total_gib=2100) == []
    assert judged("memory", WELL, total_gib=2200) == [("MEMORY_MISSING", "node")]
    assert judged("cpu_load", host(load=(99.0, 99.0, 32.0))) == []
    assert judged("cpu_load", host(load=(1.0, 1.0, 33.0))) == [("LOAD_HIGH", "node")]
    assert judged("clock_sync", host(clock_synced=False)) == [("CLOCK_UNSYNCED", "node")]
    assert judged("clock_sync", host(clock_synced=None)) == []


def system(**change: Any) -> NodeFacts:
    return replace(WELL, system=replace(SYSTEM, **change))


def test_tasks_that_sleep_for_minutes() -> None:
    task = DStateTask(pid=5, tid=6, start=1, name="python3", stack=("rpc_wait+0x1/0x2 [sunrpc]",))
    tasks = (replace(task, blocked_s=300.0), replace(task, tid=7, blocked_s=299.0), task)
    (found,) = findings("tasks", system(d_state_tasks=tasks))
    assert found.code == "TASK_HUNG"
    assert "python3 6 in rpc_wait" in found.detail
    assert judged("tasks", system(d_state_tasks=tasks[1:])) == []
    assert judged("tasks", system(old_zombies=51)) == [("ZOMBIES", "node")]


def test_modules() -> None:
    assert judged("kernel_modules", system(modules=frozenset())) == [
        *(("MODULE_MISSING", name) for name in ("ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib")),
        *(("MODULE_MISSING", name) for name in ("nvidia", "nvidia_uvm")),
        *(("MODULE_ADVISED", name) for name in ("gdrdrv", "nvidia_peermem")),
    ]
    bare = replace(system(modules=frozenset()), expected_gpus=0, ports=None)
    assert judged("kernel_modules", bare) == [], "neither GPUs nor InfiniBand: none is needed"
    assert judged("kernel_modules", system(modules=None)) == []


def service(**change: Any) -> NodeFacts:
    return system(services=(replace(SYSTEM.services[0], **change),))


def test_services() -> None:
    assert judged("services", service(running=False)) == [("FABRIC_MANAGER_DOWN", "fabricmanager")]
    assert judged("services", service(running=False, ran=False)) == []
    required = frozenset({"dcgm"})
    stopped = service(name="dcgm", running=False, ran=False)
    assert judged("services", stopped, required=required) == [("SERVICE_DOWN", "dcgm")]
    assert judged("services", service(running=None), required=frozenset({"fabricmanager"})) == []
    early = replace(stopped, system=replace(stopped.system, uptime_s=200.0))  # type: ignore[type-var]
    assert judged("services", early, required=required) == []


def test_slurmd() -> None:
    silent = replace(WELL, slurmd=SlurmdFacts(answers=False, detail="nobody listens"))
    assert judged("slurmd", silent) == [("SLURMD_SILENT", "node")]
    unheard = replace(WELL, slurmd=SlurmdFacts(answers=True, heard_s=901.0))
    assert judged("slurmd", unheard) == [("SLURMD_UNHEARD", "node")]
    assert judged("slurmd", unheard, max_unheard_s=0) == []


def test_dcgm() -> None:
    hot = DcgmIncident(entity="GPU", entity_id="3", system="Thermal system", health="Warning")
    dead = replace(hot, system="Memory system", health="Failure", text="DBE")
    facts = replace(WELL, dcgm=DcgmFacts(overall="Failure", incidents=(hot, dead)))
    assert judged("dcgm", facts) == [
        ("DCGM_WARNING", "GPU 3 Thermal system"),
        ("DCGM_FAILURE", "GPU 3 Memory system"),
    ]
    assert judged("dcgm", facts, ignore=frozenset({"Memory system"})) == [
        ("DCGM_WARNING", "GPU 3 Thermal system")
    ]
    assert judged("dcgm", replace(WELL, dcgm=DcgmFacts(overall="Failure"))) == [
        ("DCGM_FAILURE", "node")
    ]


# --- what no longer says how it is, is not gone ---------------------------------------------------


@pytest.mark.parametrize(
    ("name", "bad", "silent"),
    [
        ("infiniband", port(state="DOWN"), port(state="")),
        ("infiniband", port(state="DOWN"), replace(WELL, ports=())),
        ("infiniband_errors", news(symbol_ber=1e-13), news(symbol_ber=None)),
        ("infiniband_errors", news(integrity=2), news(integrity=None)),
        ("pcie_aer", on_bus(replace(GPU, fatal_new=1)), on_bus(replace(GPU, fatal_new=None))),
        ("pci_devices", on_bus(replace(GPU, answers=False)), on_bus(replace(GPU, answers=None))),
        ("disks", disk(free_bytes=0), host(disks=())),
        ("memory", host(memory_available_bytes=0), host(memory_available_bytes=None)),
        ("cpu_load", host(load=(99.0, 99.0, 99.0)), host(load=None)),
        ("clock_sync", host(clock_synced=False), host(clock_synced=None)),
        ("kernel_modules", system(modules=frozenset()), system(modules=None)),
        ("services", service(running=False), service(running=None)),
    ],
)
def test_silence_neither_opens_nor_clears(name: str, bad: NodeFacts, silent: NodeFacts) -> None:
    check = checks.load(name)
    table = {name: CheckConfig(limits=check.Limits())}
    looked = frozenset({check.NEEDS})

    def after(*looks: NodeFacts) -> set[str]:
        streaks: Any = {}
        for facts in looks:
            streaks = fold(streaks, table, facts, looked, 1.0)
        return {streak.finding.code for streak in streaks.values() if streak.open}

    opened = after(*[bad] * 10)
    assert opened
    assert after(*[bad] * 10, *[silent] * 20) >= opened
    assert after(*[bad] * 10, *[silent] * 20, *[WELL] * 10) == set()


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("mounts", {"min_free_share": 1.0}),
        ("mounts", {"max_latency_s": 0.0}),
        ("disks", {"min_free_inodes_share": -0.1}),
        ("memory", {"tolerance": 1.5}),
        ("cpu_load", {"max_per_cpu": 0.0}),
        ("tasks", {"max_asleep_s": 0.0}),
        ("services", {"required": frozenset({"cron"})}),
        ("services", {"grace_s": -1.0}),
        ("slurmd", {"max_unheard_s": -1.0}),
        ("infiniband", {"min_rate_gbps": -1.0}),
        ("infiniband_errors", {"warn_ber": 1e-13}),
        ("infiniband_errors", {"max_integrity": -1}),
        ("infiniband_ber", {"warn_effective_ber": 1.0}),
        ("pcie_aer", {"max_fatal": -1}),
        ("pci_devices", {"nvswitches": 65}),
        *((name, {"open_after": 0}) for name in MINE),
    ],
)
def test_limits_out_of_range_are_refused(name: str, limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        checks.load(name).Limits(**limits)


def test_what_is_no_fault_of_the_node_never_takes_it_out() -> None:
    from holdfast.faults import FAULTS

    for code in ("LOAD_HIGH", "ZOMBIES", "CLOCK_UNSYNCED", "MODULE_ADVISED", "IB_FIRMWARE"):
        assert FAULTS[code].severity is Severity.INFO
    for code in ("SLURMD_SILENT", "SERVICE_DOWN", "MOUNT_SLOW", "IB_BER_RISING", "PCIE_AER"):
        assert not FAULTS[code].drains

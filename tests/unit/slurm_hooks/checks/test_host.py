"""Checks of the machine, its mounts and services, and what holds for them and those of the fabric alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.vocabulary import Severity
from slurm_hooks import checks
from slurm_hooks.evaluation.judge import fold
from slurm_hooks.facts import (
    DcgmFacts,
    DcgmIncident,
    DStateTask,
    HostFacts,
    MountFacts,
    MountState,
    NodeFacts,
    PcieFacts,
    PciFacts,
    PciKind,
    PortFacts,
    ServiceFacts,
    SlurmdFacts,
    SystemFacts,
)
from slurm_hooks.settings.sections import CheckConfig
from tests.unit.slurm_hooks.healthy_node import (
    GPU,
    MINE,
    WELL,
    disk,
    findings,
    host,
    judged,
    mount,
    on_bus,
    port,
    port_deltas,
    service,
    system,
)


@pytest.mark.parametrize("name", MINE)
def test_a_healthy_node_has_no_finding_and_shows_its_values(name: str) -> None:
    assert judged(name, WELL) == []
    check = checks.load(name)
    shown = list(check.show(WELL, check.limits()))
    assert shown
    assert all(reading.value and reading.limit for reading in shown)


@pytest.mark.parametrize("name", MINE)
def test_facts_that_were_not_read_are_no_finding(name: str) -> None:
    dark = NodeFacts(expected_gpus=8)
    assert judged(name, dark) == []
    assert list(checks.load(name).show(dark, checks.load(name).limits())) == []


@pytest.mark.parametrize("name", MINE)
def test_incomplete_facts_are_no_finding(name: str) -> None:
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
    list(checks.load(name).show(dim, checks.load(name).limits()))


# --- mounts and disks -----------------------------------------------------------------------------


def test_a_wrong_mount_a_slow_one_and_one_without_inodes() -> None:
    assert judged("mounts", WELL, sources={"/m": "nfs4 filer:/m"}) == []
    assert judged("mounts", WELL, sources={"/m": "nfs4"}) == []
    assert judged("mounts", WELL, sources={"/m": "lustre"}) == [("MOUNT_WRONG", "/m")]
    assert judged("mounts", WELL, sources={"/m": "nfs4 other:/m"}) == [("MOUNT_WRONG", "/m")]
    assert judged("mounts", mount(latency_s=1.5)) == [("MOUNT_SLOW", "/m")]
    assert judged("mounts", mount(free_inodes=0, inodes=100)) == [("MOUNT_FULL", "/m")]
    assert judged("mounts", mount(free_inodes=0, inodes=0)) == [], "it does not count them"


def test_disks() -> None:
    assert judged("disks", disk(free_bytes=1)) == [("DISK_FULL", "/")]
    assert judged("disks", disk(free_inodes=1)) == [("DISK_FULL", "/")]
    assert judged("disks", disk(read_only=True, free_bytes=0)) == [], "an image is always full"
    assert judged("disks", disk(read_only=True, turned_read_only=True)) == [("DISK_READ_ONLY", "/")]


# --- the machine ----------------------------------------------------------------------------------


def test_memory_load_and_clock() -> None:
    assert judged("memory", host(memory_available_bytes=1 << 30)) == [("MEMORY_LOW", "node")]
    assert judged("memory", WELL, total_gib=2100) == []
    assert judged("memory", WELL, total_gib=2200) == [("MEMORY_MISSING", "node")]
    assert judged("cpu_load", host(load=(99.0, 99.0, 32.0))) == []
    assert judged("cpu_load", host(load=(1.0, 1.0, 33.0))) == [("LOAD_HIGH", "node")]
    assert judged("clock_sync", host(clock_synced=False)) == [("CLOCK_UNSYNCED", "node")]
    assert judged("clock_sync", host(clock_synced=None)) == []


def test_tasks_that_sleep_for_minutes() -> None:
    task = DStateTask(pid=5, tid=6, start=1, name="python3", stack=("rpc_wait+0x1/0x2 [sunrpc]",))
    tasks = (replace(task, blocked_s=300.0), replace(task, tid=7, blocked_s=299.0), task)
    (found,) = findings("tasks", system(d_state_tasks=tasks))
    assert found.code == "TASK_HUNG"
    assert "python3 6 in rpc_wait" in found.detail
    assert judged("tasks", system(d_state_tasks=tasks[1:])) == []
    assert judged("tasks", system(old_zombies=51)) == [("ZOMBIES", "node")]


def test_modules() -> None:
    nothing = replace(system(modules=frozenset()), ports=())
    card = PcieFacts(pci="0000:54:00.0", kind=PciKind.HCA)
    on_the_bus = replace(nothing, pci=PciFacts(devices=(card,)))
    named = replace(nothing, expected_hcas=frozenset({"mlx5_0"}))
    for fabric in (on_the_bus, named):
        assert judged("kernel_modules", fabric) == [
            *(
                ("MODULE_MISSING", name)
                for name in ("ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib")
            ),
            *(("MODULE_MISSING", name) for name in ("nvidia", "nvidia_uvm")),
            *(("MODULE_ADVISED", name) for name in ("gdrdrv", "nvidia_peermem")),
        ]
    bare = replace(nothing, expected_gpus=0)
    assert judged("kernel_modules", bare) == [], "neither GPUs nor InfiniBand: none is needed"
    assert judged("kernel_modules", system(modules=None)) == []


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
    silent = replace(WELL, slurmd=SlurmdFacts(answers=False, detail="not listening on its port"))
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


# --- a finding whose subject cannot be read is not gone -------------------------------------------


@pytest.mark.parametrize(
    ("name", "bad", "silent"),
    [
        ("infiniband", port(state="DOWN"), port(state="")),
        ("infiniband", port(state="DOWN"), replace(WELL, ports=())),
        ("infiniband_errors", port_deltas(symbol_ber=1e-13), port_deltas(symbol_ber=None)),
        ("infiniband_errors", port_deltas(integrity=2), port_deltas(integrity=None)),
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
def test_without_an_answer_nothing_opens_or_clears(
    name: str, bad: NodeFacts, silent: NodeFacts
) -> None:
    check = checks.load(name)
    table = {name: CheckConfig(limits=check.limits())}
    looked = frozenset({check.probe})

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
        checks.load(name).limits(**limits)


def test_a_fault_outside_the_node_never_drains_it() -> None:
    from holdfast.faults import FAULTS

    for code in ("LOAD_HIGH", "ZOMBIES", "CLOCK_UNSYNCED", "MODULE_ADVISED", "IB_FIRMWARE"):
        assert FAULTS[code].severity is Severity.INFO
    for code in ("SLURMD_SILENT", "SERVICE_DOWN", "MOUNT_SLOW", "IB_BER_RISING", "PCIE_AER"):
        assert not FAULTS[code].drains

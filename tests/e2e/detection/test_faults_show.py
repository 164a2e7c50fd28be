"""Every kind of fault is visible on a node, and healing it leaves nothing behind."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from testbed import faults
from testbed.box import Box
from testbed.errors import SandboxError

from tests.conftest import Boxes
from tests.e2e import cluster
from tests.e2e.detection import run

pytestmark = [pytest.mark.e2e, pytest.mark.one_release, pytest.mark.timeout(600)]
NODE = "worker-3"

_NVML = """
import sys, pynvml as n
h = n.nvmlDeviceGetHandleByIndex
try:
    n.nvmlInit()
    print(eval(sys.argv[1]))
except n.NVMLError as error:
    print("NVML", error.value)
"""
_FILLED = "(lambda s: (n.{}(h(0), __import__('ctypes').byref(s)), print('{}', s.{})))(n.{}())"
_FABRIC = _FILLED.format(
    "nvmlDeviceGetGpuFabricInfoV", "fabric", "state", "c_nvmlGpuFabricInfo_v3_t"
)
_SRAM = _FILLED.format(
    "nvmlDeviceGetSramEccErrorStatus", "flag", "bThresholdExceeded", "c_nvmlEccSramErrorStatus_v1_t"
)
_TREE = "cd /sim/sys/class/infiniband/mlx5_3/ports/1 &&"


@dataclass(frozen=True, slots=True)
class Look:
    """A command on the node, and the output that it has only while the fault is active."""

    words: str
    at: list[str]
    shows: str


def nvml(expression: str) -> list[str]:
    return ["/opt/holdfast/bin/python", "-I", "-c", _NVML, expression]


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


LOOKS = [
    Look("xid 79 --gpu 3", nvml("h(3)"), "NVML 15"),
    Look("xid 95 --gpu 3", nvml("n.nvmlDeviceGetFieldValues(h(3), [230])[0].value.uiVal"), "1"),
    Look(
        "gpu-lost --gpu 5", sh("cat /sim/sys/bus/pci/devices/0000:a8:00.0/current_link_width"), "63"
    ),
    Look("gpu-count 7", nvml("n.nvmlDeviceGetCount()"), "7"),
    Look("ecc --gpu 1", nvml("n.nvmlDeviceGetTotalEccErrors(h(1), 1, 0)"), "1"),
    Look(
        "row-remap-pending --gpu 2", nvml("list(n.nvmlDeviceGetRemappedRows(h(2)))[2:]"), "[1, 0]"
    ),
    Look("row-remap-failed --gpu 2", nvml("list(n.nvmlDeviceGetRemappedRows(h(2)))[2:]"), "[0, 1]"),
    Look(
        "recovery-action reset --gpu 6",
        nvml("n.nvmlDeviceGetFieldValues(h(6), [230])[0].value.uiVal"),
        "1",
    ),
    Look("nvlink-down --gpu 1 --link 4", nvml("n.nvmlDeviceGetNvLinkState(h(1), 4)"), "0"),
    Look("ib-down --hca mlx5_3", sh(f"{_TREE} cat state"), "1: DOWN"),
    Look("ib-rate --hca mlx5_3", sh(f"{_TREE} cat rate"), "200 Gb/sec (4X HDR)"),
    Look("hca-gone --hca mlx5_3", sh("ls /sim/sys/class/infiniband | wc -l"), "7"),
    Look("gpu-off-bus --gpu 5", sh("ls /sim/sys/bus/pci/devices | grep -c 0000:a8"), "0"),
    Look("nvswitch-gone", sh("ls /sim/sys/bus/pci/devices | grep -c '^0000:0[5-8]'"), "3"),
    Look(
        "pcie-aer fatal --gpu 5",
        sh("tail -n 1 /sim/sys/bus/pci/devices/0000:a8:00.0/aer_dev_fatal"),
        "TOTAL_ERR_FATAL 1",
    ),
    Look("module-missing nvidia_uvm", sh("ls /sim/sys/module | grep -c nvidia_uvm"), "0"),
    Look(
        "service-stopped fabricmanager",
        sh("ls /sim/sys/fs/cgroup/system.slice | grep -c fabric"),
        "0",
    ),
    Look("disk-full", sh("df --output=pcent /tmp | tail -n 1"), "100%"),
    Look("run-full", sh("touch /run/looked; rm -f /run/looked"), "No space left"),
    Look("disk-read-only", sh("touch /tmp/looked; rm -f /tmp/looked"), "Read-only file system"),
    Look("state-full", sh("df --output=pcent /var/lib/holdfast | tail -n 1"), "100%"),
    Look(
        "state-read-only",
        sh("touch /var/lib/holdfast/looked; rm -f /var/lib/holdfast/looked"),
        "Read-only file system",
    ),
    Look("state-hung", ["stat", "-f", "/var/lib/holdfast"], "no end"),
    Look("munge-down", sh("munge -n </dev/null"), "status"),
    Look("thermal --gpu 4", nvml("n.nvmlDeviceGetTemperature(h(4), 0)"), "91"),
    Look("power-brake", nvml("n.nvmlDeviceGetCurrentClocksEventReasons(h(7))"), "136"),
    Look("pcie-width --width 8", nvml("n.nvmlDeviceGetCurrPcieLinkWidth(h(0))"), "8"),
    Look("pcie-speed --gpu 2", nvml("n.nvmlDeviceGetCurrPcieLinkGeneration(h(2))"), "1"),
    Look("row-remap-low", nvml("n.nvmlDeviceGetRowRemapperHistogram(h(0)).max"), "2557"),
    Look("repair-pending", nvml("n.nvmlDeviceGetRepairStatus(h(0))"), "[1, 0]"),
    Look("gpu-mode compute-exclusive", nvml("n.nvmlDeviceGetComputeMode(h(0))"), "3"),
    Look("vbios-differs", nvml("n.nvmlDeviceGetVbiosVersion(h(0))"), "96.00.74.00.0D"),
    Look("nvml-error handle --code 14", nvml("h(0)"), "NVML 14"),
    Look(
        "gpu-process 4242",
        nvml("[p.pid for p in n.nvmlDeviceGetComputeRunningProcesses(h(0))]"),
        "4242",
    ),
    Look("fabric not-started", nvml(_FABRIC), "fabric 1"),
    Look("sram-threshold", nvml(_SRAM), "flag 1"),
    Look("nvlink-errors", nvml("n.nvmlDeviceGetNvLinkErrorCounter(h(0), 0, 1) > 0"), "True"),
    Look(
        "pcie-replays",
        nvml("__import__('time').sleep(1) or n.nvmlDeviceGetPcieReplayCounter(h(0)) > 150"),
        "True",
    ),
    Look(
        "nvml-hung", ["timeout", "--signal=KILL", "1", *nvml("n.nvmlDeviceGetCount()")], "status -9"
    ),
    Look("nvml-unkillable", nvml("n.nvmlDeviceGetCount()"), "no end"),
    Look("mount-gone", sh("mountpoint /mnt/training"), "status 32"),
    Look("mount-hung /mnt/inference", ["stat", "-f", "/mnt/inference"], "no end"),
    Look(
        "mount-full /mnt/training",
        sh("dd if=/dev/zero of=/mnt/training/fill bs=1k count=64"),
        "No space left",
    ),
    Look("mount-read-only /mnt/training", sh("echo >/mnt/training/fill"), "Read-only file system"),
    Look("network-cut", sh("timeout 2 scontrol show node"), "status 124"),
    Look("slurmd-killed", sh("pidof slurmd"), "status 1"),
    Look(
        "clock-skew --seconds 3600",
        sh("[ $(date +%s) -gt $(($(stat -c %Y /proc/self) + 1800)) ]"),
        "status 0",
    ),
]
"""`nvml-slow`, faults that end by themselves and faults of the controller have separate tests below."""


def look(box: Box, at: list[str], node: str = NODE) -> str:
    """All output of a command on the node, and its status unless it succeeded with output."""
    try:
        done: subprocess.CompletedProcess[str] = box.node(node).run(at, timeout_s=4, check=False)
    except SandboxError as error:
        return str(error)
    status = f" status {done.returncode}"
    return (done.stdout + done.stderr).strip() + (
        status if done.returncode or not done.stdout else ""
    )


def leftovers(box: Box, node: str = NODE) -> dict[str, str]:
    """State of the node that a fault must not change permanently."""
    return {
        "mounts": look(box, sh("cut -d' ' -f2-3 /proc/mounts | sort"), node),
        "files": look(box, sh("cd /sim && find . | sort"), node),
        "temporary files": look(box, sh("find /run /tmp -name '*full*' -o -name '*hung*'"), node),
        "servers": look(box, sh("pgrep -f '[h]ung_mount'"), node),
    }


@pytest.fixture(scope="module", autouse=True)
def _at_rest(boxes: Boxes, release: str) -> Iterator[None]:
    boxes.repair(release)
    yield
    boxes.repair(release)


def shown(box: Box, looks: Sequence[Look]) -> dict[str, str]:
    """Each fault's problem; empty: visible until it was healed, and nothing is left. Four nodes at once."""
    problems: dict[str, str] = {}

    def work(node: str, fault: Look) -> None:
        try:
            _is_visible_until_healed(box, node, fault)
        except (AssertionError, SandboxError, OSError) as error:
            problems[fault.words] = f"{node}: {type(error).__name__}: {error}"
        else:
            problems[fault.words] = ""

    run.spread(looks, [node.name for node in box.nodes], work)
    return problems


def _is_visible_until_healed(box: Box, node: str, fault: Look) -> None:
    before = leftovers(box, node)
    assert fault.shows not in look(box, fault.at, node)
    box.fault(node, *fault.words.split())
    try:
        assert fault.shows in look(box, fault.at, node)
    finally:
        box.heal(node)
    assert fault.shows not in look(box, fault.at, node)
    assert faults.active(box, node) == []
    assert leftovers(box, node) == before


@pytest.fixture(scope="module")
def problems(boxes: Boxes, release: str) -> dict[str, str]:
    return shown(boxes.get(release), LOOKS)


@pytest.mark.parametrize("fault", LOOKS, ids=lambda fault: fault.words)
def test_a_fault_is_visible_until_it_is_healed(
    box: Box, problems: dict[str, str], fault: Look, request: pytest.FixtureRequest
) -> None:
    if problems[fault.words] and getattr(request.node, "execution_count", 1) > 1:
        problems.update(shown(box, [fault]))  # a retry: all of them ran before the first test
    assert problems[fault.words] == ""


def test_every_kind_is_tested() -> None:
    here = {fault.words.split()[0] for fault in LOOKS}
    elsewhere = {"nvml-slow", "link-flap", "ib-errors", "power-off", "power-cycle", "agent-killed"}
    elsewhere |= {"kernel-log", "kernel-line", "sxid"}  # log lines: see test_detection
    assert here | elsewhere == {
        name for name, kind in faults.KINDS.items() if not kind.of_controller
    }


def test_slow_nvml_link_flaps_and_power_loss(box: Box) -> None:
    box.fault(NODE, "nvml-slow", "--ms", "300")
    timed = nvml("(lambda t: (n.nvmlDeviceGetCount(), t.monotonic()))(__import__('time'))")
    begin = float(look(box, timed).rpartition(",")[2].strip(" )"))
    assert begin > 0
    box.heal(NODE, "nvml-slow")
    box.fault(NODE, "link-flap", "--hca", "mlx5_3", "--times", "4")
    assert look(box, sh(f"{_TREE} cat counters/link_downed state")).split()[0] >= "4"
    box.fault(NODE, "ib-errors", "--hca", "mlx5_3", "--count", "70")
    assert int(look(box, sh(f"{_TREE} cat counters/symbol_error"))) >= 70
    boot_id = look(box, sh("cat /proc/sys/kernel/random/boot_id"))
    box.fault(NODE, "power-off")
    assert "is powered off" in look(box, ["true"])
    box.heal(NODE)
    assert look(box, sh("cat /proc/sys/kernel/random/boot_id")) not in (boot_id, "")


def test_a_killed_agent_is_restarted(box: Box) -> None:
    def agents() -> set[str]:
        output = look(box, sh("pgrep -f '[s]lurm_hooks.agent' || echo none"))
        return set() if "none" in output else set(output.split())

    cluster.wait_for(lambda: bool(agents()), "an agent", 40)
    before = agents()
    box.fault(NODE, "agent-killed")
    cluster.wait_for(lambda: bool(agents() - before), "another agent", 40)


def test_a_power_loss_clears_a_hung_mount(box: Box) -> None:
    box.fault(NODE, "mount-hung")
    assert "no end" in look(box, ["ls", "/mnt/training"])
    box.reboot(NODE)
    assert faults.active(box, NODE) == []
    assert "status" not in look(box, sh("ls /mnt/training; echo ok"))


@pytest.mark.parametrize("words", ["mount-hung", "mount-full", "clock-skew --seconds 90"])
def test_powering_a_node_on_clears_an_older_fault(box: Box, words: str) -> None:
    box.reboot(NODE)  # start without mounts of an earlier test
    before = leftovers(box)
    box.fault(NODE, *words.split())
    box.fault(NODE, "power-off")
    box.heal(NODE)
    assert faults.active(box, NODE) == []
    assert leftovers(box) == before


@pytest.mark.parametrize(
    ("kind", "argv"),
    [
        ("slurmctld-stopped", ["timeout", "2", "scontrol", "show", "node", NODE]),
        ("slurmctld-killed", ["timeout", "8", "scontrol", "show", "node", NODE]),
        ("slurmdbd-down", ["timeout", "8", "sacctmgr", "show", "cluster"]),
        ("api-server-down", ["/opt/kube/bin/kubectl", "get", "nodes"]),
    ],
)
def test_a_service_of_the_cluster_stops_until_it_is_healed(
    box: Box, kind: str, argv: list[str]
) -> None:
    def answers() -> bool:
        return box.run(argv, check=False).returncode == 0

    cluster.wait_for(answers, "an answer", 10)
    box.fault("controller", kind)
    try:
        assert not answers()
    finally:
        box.heal("controller")
    cluster.wait_for(answers, "an answer again", 20)
    assert faults.active(box, "controller") == []


def test_a_killed_bridge_is_restarted(box: Box) -> None:
    before = box.daemons()["bridge"]
    box.fault("controller", "bridge-killed")
    cluster.wait_for(
        lambda: box.daemons().get("bridge") not in (before, None), "another bridge", 10
    )

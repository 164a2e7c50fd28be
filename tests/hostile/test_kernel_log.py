"""A user makes the kernel log chosen text: names of processes and files, prefixes of netfilter rules,
errors of the user's own image. No node is drained for it; a real fault still drains.
"""

from __future__ import annotations

import re

import pytest
from demonstration.observe import Cluster
from testbed.box import Box

from tests.e2e import cluster
from tests.e2e.verdicts import Verdicts

pytestmark = pytest.mark.one_release

XID = "NVRM: Xid (PCI:0000:53:00): 79, GPU has fallen off the bus."
_CRASH = "{comm}[4242]: segfault at 0 ip 000055acc5adf1bc sp 00007fff313b47c0 error 6 in {name}[11bc,55acc5adf000+1000]"
_PACKET = "IN=lo OUT= MAC= SRC=127.0.0.1 DST=127.0.0.1 LEN=84 TOS=0x00 PREC=0x00 TTL=64 ID=1 DF PROTO=ICMP "

NAMES = (
    XID,
    f"a\n{XID}",
    "BTRFS (device sda) forced readonly",
    "mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 7: be00000000800400",
    "pcieport 0000:50:01.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Data Link Layer, (Receiver ID)",
    "watchdog: Watchdog detected hard LOCKUP on cpu 12",
    "Oops: 0000 [#1] PREEMPT SMP NOPTI",
    "nvidia-nvswitch0: SXid (PCI:0000:07:00.0): 20034, Fatal, Link 28 LTSSM Fault Up",
)  # fmt: skip
IMAGE = "EXT4-fs (dm-9): Remounting filesystem read-only"
"""A true line, but about the user's own damaged image, mounted only in the user's namespace."""


def forged() -> list[tuple[int, str]]:
    """(level, text) of the records that the kernel writes for these names."""
    found = [(6, _CRASH.format(comm=name[:15], name=name.replace("/", "_"))) for name in NAMES]
    found += [
        (
            6,
            f"traps: {name[:15]}[4242] general protection fault ip:5 sp:7 error:0 in {name}[1,2+3]",
        )
        for name in NAMES
    ]
    found += [(4, f" in {name}[11bc,55acc5adf000+1000]") for name in NAMES]
    found += [(2, f"{name[:127]}{_PACKET}") for name in NAMES]
    return [
        *found,
        (3, f"INFO: task {XID[:15]}:4242 blocked for more than 120 seconds."),
        (3, IMAGE),
    ]


def running(box: Box, job: int) -> bool:
    return (
        box.run(["squeue", "-h", "-o", "%T", "-j", str(job)], check=False).stdout.strip()
        == "RUNNING"
    )


def of_the_log(box: Box) -> set[str]:
    """Codes of findings from the kernel log; other checks depend on the host under the sandbox."""
    findings = (Cluster(box).verdict("worker-0") or {})["findings"]
    return {
        found["code"] for found in findings if found["check"].startswith(("kernel_", "gpu_", "nv"))
    }


@pytest.fixture
def job(clean_box: Box) -> int:
    """A job under `holdfast run` on the first node, which a drain for a fatal fault would end."""
    submitted = clean_box.run(
        ["sbatch", "-D/tmp", "-o/dev/null", "-w", "worker-0", "--exclusive",
         "--wrap", "holdfast run --checkpoints /mnt/training/names -- srun sleep 300"],
        user="alice",
    ).stdout  # fmt: skip
    found = int(re.findall(r"\d+", submitted)[0])
    cluster.wait_for(lambda: running(clean_box, found), "the job runs")
    return found


def test_names_in_the_kernel_log_drain_no_node(clean_box: Box, job: int) -> None:
    for level, text in forged():
        clean_box.fault("worker-0", "kernel-line", text, "--level", str(level))
    # Records are read in order, so this one is read last.
    clean_box.fault("worker-0", "kernel-log", "nfs-lost")
    cluster.wait_for(
        lambda: "FS_SERVER_LOST" in Verdicts(clean_box, "worker-0").codes(), "the last line is read"
    )
    assert of_the_log(clean_box) == {"FS_SERVER_LOST", "HUNG_TASK", "FS_SHUTDOWN_UNCONFIRMED"}
    cluster.stays(lambda: cluster.in_service(clean_box, "worker-0"), "the node stays in service", 3)
    shown = clean_box.run(["scontrol", "show", "job", str(job)]).stdout
    assert "JobState=RUNNING" in shown, shown
    assert "Restarts=0" in shown, shown
    clean_box.fault("worker-0", "xid", "79")
    cluster.wait_for(lambda: cluster.drained(clean_box, "worker-0"), "the real Xid drains")
    assert "XID79" in cluster.reason(clean_box, "worker-0")


def test_a_damaged_image_does_not_drain_the_node_but_its_own_disk_does(clean_box: Box) -> None:
    clean_box.fault("worker-1", "kernel-line", IMAGE, "--level", "3")
    cluster.wait_for(
        lambda: "FS_SHUTDOWN_UNCONFIRMED" in Verdicts(clean_box, "worker-1").codes(),
        "the line is read",
    )
    cluster.stays(lambda: cluster.in_service(clean_box, "worker-1"), "a warning does not drain", 3)
    clean_box.fault("worker-1", "kernel-log", "fs-shutdown")
    cluster.wait_for(
        lambda: cluster.drained(clean_box, "worker-1"), "a fault of its own disk drains"
    )

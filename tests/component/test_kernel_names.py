"""This machine's own kernel: programs with hostile names crash, and no record that it writes of
them is a fault."""

from __future__ import annotations

import os
import platform
import resource
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import ProbeError
from slurm_hooks.evaluation.observer import Observer
from slurm_hooks.probes.kmsg.follower import KernelRecord, KmsgFollower
from slurm_hooks.probes.kmsg.user_text import begins_with_user_text
from slurm_hooks.settings.settings import load
from slurm_hooks.tracking.node import TrackedState

NOBODY = 65534
XID = "NVRM: Xid (PCI:0000:53:00): 79, GPU has fallen off the bus."
"""Its first 15 bytes, which become the name of the process, end just before the address."""

NAMES = (XID, f"a\n{XID}", "BTRFS (device sda) forced readonly", "\\x0a\n \x1b[31m" + XID)
CRASHES = {
    "segfault": bytes.fromhex("31c08900"),  # a write to address 0
    "general protection fault": bytes.fromhex("f4"),  # hlt
    "trap invalid opcode": bytes.fromhex("0f0b"),  # ud2
}
"""The kernel's message, and the machine code that causes it."""

BURST_S = 5.5
"""printk_ratelimit() lets 10 records through in 5 s, all programs together
(kernel.printk_ratelimit)."""


def program(path: Path, code: bytes) -> None:
    """A 64-bit ELF file that does nothing but this."""
    base, header = 0x400000, 64 + 56
    size = header + len(code)
    elf = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, 62, 1, base + header, 64, 0, 0, 64, 56, 1, 0, 0, 0
    )  # fmt: skip
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 0x1000)
    path.write_bytes(elf + segment + code)
    path.chmod(0o755)


def crash(path: Path) -> None:
    """As a user with no rights, and without a core file."""
    user = NOBODY if os.geteuid() == 0 else None
    no_core = lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # noqa: E731
    ended = subprocess.run([path], user=user, preexec_fn=no_core, check=False)
    assert ended.returncode < 0, "it must be killed by a signal"


@pytest.fixture
def follower() -> Iterator[KmsgFollower]:
    """From now on."""
    if platform.machine() != "x86_64":
        pytest.skip("the programs that crash here are x86-64 machine code")
    if Path("/proc/sys/debug/exception-trace").read_text().strip() == "0":
        pytest.skip("this kernel tells of no crash: debug.exception-trace is 0")
    try:
        found = KmsgFollower(Path("/dev/kmsg"))
        found.read_all()
    except ProbeError as error:
        pytest.skip(f"this user may not read the kernel log: {error}")
    yield found
    found.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where everybody may run programs."""
    with tempfile.TemporaryDirectory(prefix="holdfast-names-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def crash_all(folder: Path, follower: KmsgFollower, code: bytes) -> list[KernelRecord]:
    """One after the other under each name; what the kernel wrote of them."""
    for name in NAMES:
        program(folder / name, code)
        crash(folder / name)
    return [r for r in follower.read_all() if any(name[:10] in r.text for name in NAMES)]


@pytest.mark.parametrize("said", CRASHES)
def test_no_record_of_a_crashed_program_is_a_fault(
    said: str, follower: KmsgFollower, folder: Path
) -> None:
    ours = crash_all(folder, follower, CRASHES[said])
    if len(ours) < len(NAMES):
        time.sleep(BURST_S)
        ours += crash_all(folder, follower, CRASHES[said])
    assert len({record.text.partition(" in ")[2] for record in ours}) >= len(NAMES)
    assert all(said in record.text for record in ours)
    observer = Observer(8, "boot", TrackedState(boot_id="boot"))
    assert observer.read_kernel_log(ours) == []
    assert observer.new_events == []
    assert observer.tracked.events == ()
    assert observer.judge_kernel_log(load(folder / "none.yaml").active()) == ()
    for record in ours:
        assert record.facility == 0, (
            "the kernel wrote it itself: the facility protects from nothing"
        )
        name_first = not record.text.startswith("traps: ")
        assert begins_with_user_text(record.text) == name_first, record.text

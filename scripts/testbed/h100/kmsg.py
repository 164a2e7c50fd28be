"""A node's kernel log as a regular file: the records that a reader of /dev/kmsg gets.

One record a line, ``prio,seq,usec,flags;text`` (Documentation/ABI/testing/dev-kmsg): prio is
facility * 8 + level, usec the time since boot. A node shares the host's clock, so the time since
boot is CLOCK_MONOTONIC.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable
from pathlib import Path

KERNEL_ERROR = 3
KERNEL_WARNING = 4
"""Facility 0, which user space cannot write, and the level of the NVIDIA driver's messages."""
KERNEL_INFO = 6
DAEMON_INFO = 3 * 8 + 6
"""Facility 3: what init writes to /dev/kmsg during the boot."""

_BOOT = (
    (5, "Linux version 6.8.0-60-generic (buildd@host) (gcc 13.3.0) #63-Ubuntu SMP PREEMPT_DYNAMIC"),
    (6, "Command line: BOOT_IMAGE=/boot/vmlinuz root=/dev/vda1 ro console=ttyS0 iommu=pt"),
    (6, "pcieport 0000:50:01.0: AER: enabled with IRQ 34"),
    (DAEMON_INFO, "systemd[1]: Set hostname to <worker>."),
    (6, "mlx5_core 0000:54:00.0: firmware version: 28.39.1002"),
    (6, "mlx5_core 0000:54:00.0: 504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)"),
    (4, "nvidia: loading out-of-tree module taints kernel."),
    (6, "nvidia-nvlink: Nvlink Core is being initialized, major device number 511"),
    (6, "nvidia 0000:53:00.0: enabling device (0000 -> 0002)"),
    (4, "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.105.08  Release Build"),
    (6, "nvidia-modeset: Loading NVIDIA Kernel Mode Setting Driver for UNIX platforms  580.105.08"),
    (6, "nvidia-uvm: Loaded the UVM driver, major device number 509."),
)


def begin(path: Path) -> None:
    """Start a new log, as after a boot: sequence numbers start at 0, with the messages of the boot."""
    lines = [record(prio, seq, _now_us(), text) for seq, (prio, text) in enumerate(_BOOT)]
    path.write_text("".join(lines))


def append(path: Path, texts: Iterable[str], prio: int = KERNEL_WARNING) -> None:
    """Add records atomically; two writers neither mix records nor reuse a number."""
    with path.open("ab+") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        seq = _next_seq(log.fileno())
        lines = [record(prio, seq + index, _now_us(), text) for index, text in enumerate(texts)]
        log.write("".join(lines).encode())


def record(prio: int, seq: int, usec: int, text: str) -> str:
    """One line. Control bytes, non-ASCII bytes and the backslash are ``\\xNN``, as in the kernel."""
    plain = "".join(
        chr(byte) if 32 <= byte < 127 and byte != 0x5C else f"\\x{byte:02x}"
        for byte in text.encode("utf-8", "surrogateescape")
    )
    return f"{prio},{seq},{usec},-;{plain}\n"


def _now_us() -> int:
    return time.monotonic_ns() // 1000


def _next_seq(fd: int) -> int:
    size = os.fstat(fd).st_size
    tail = os.pread(fd, 8192, max(0, size - 8192))
    last = tail.rstrip(b"\n").rpartition(b"\n")[2].split(b",")
    return int(last[1]) + 1 if len(last) > 2 and last[1].isdigit() else 0

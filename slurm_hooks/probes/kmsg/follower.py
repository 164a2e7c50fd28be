"""Follows the kernel log, counts lost records, and reads Xids.

Record format (Documentation/ABI/testing/dev-kmsg): ``prio,seq,usec,flags[,…];text``, then
`` KEY=value`` lines. The character device returns one record per read; a FIFO or a file carries the
same records as a byte stream.
"""

from __future__ import annotations

import os
import re
import stat
import time
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import ProbeError
from slurm_hooks.facts import XidEvent, pci_address
from slurm_hooks.probes import inotify
from slurm_hooks.probes.kmsg.user_text import begins_with_user_text

_READ_BYTES = 8192
"""With a shorter buffer the device fails with EINVAL for a long record."""

_MOST_AT_ONCE = 5000
"""Most records that one ``read`` of a device or FIFO returns: a kernel that writes faster than the
agent reads must not stop its other work. The descriptor stays readable; the next read continues.
"""

_READS_PER_S = 100
_PAUSE_S = 0.02
"""After this many reads in a second each one waits this long first, to read many records at once."""

_READ_ALL_S = 2.0
"""Limit of ``read_all``: long enough for any ring buffer, also while the kernel writes very fast."""

_MOST_LOST = 1 << 40
"""More than any ring buffer can lose. A sequence number this far ahead is not the kernel's; if it
were accepted, all later records would be ignored.
"""

_NUMBER = re.compile(rb"[0-9]{1,19}")
"""A number in a record's header, below 2^64."""
_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")
_PCI = r"(?:PCI:)?([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?"
_XID = re.compile(
    rf"NVRM: Xid \({_PCI}(?: GPU-I:\w{{1,4}})?(?: GPU-CI:\w{{1,4}})?\): ([0-9]{{1,6}})(?:, ?(.*))?",
    re.S,
)
"""The whole record (open-gpu-kernel-modules, krcReportXid, drivers 515 to 595). With MIG, the GPU
instance follows the address. The driver prints it with KERN_CONT, so its level is the machine's
default and means nothing.
"""

_OFF_THE_BUS = re.compile(
    rf"NVRM: (?:GPU {_PCI}: GPU has|GPU at {_PCI}(?:: GPU-[0-9a-f-]{{1,40}})? has"
    rf"|The NVIDIA GPU {_PCI}\s(?:NVRM: )?\(PCI ID: [0-9a-f:]+\)(?:\sinstalled in this system)? has)\s"
    r"(?:NVRM: )?fallen off the bus(?: and is not responding to commands)?\.?\s*"
)
_RECOVERY = re.compile(
    r"(?:pid=[^,]{1,20}, )?(?:name=.{0,20}, )?GPU recovery action changed from 0x[0-9a-fA-F]{1,8} \([^()]*\) "
    r"to 0x([0-9a-fA-F]{1,4}) \(([^()]*)\)\.?\s*",
    re.S,
)
_PREVIOUS = re.compile(r"\bcaused by previous Xid \d+\s*$")
"""At the end of the text. It is longer than a process name, which comes before it."""

_UNPRINTABLE = re.compile(r"[^ -~]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRecord:
    """One kernel log record. ``lost``: how many records before it were overwritten unread."""

    facility: int
    level: int
    seq: int
    at_s: float
    text: str
    lost: int = 0


class KmsgFollower:
    """Follows the kernel log from the record after ``after_seq`` (None: from the oldest record).

    ``fd`` becomes readable when there may be new records. ``renewed``: True after the log started
    again (its file was truncated or replaced: the machine booted). Raises ProbeError if the log
    cannot be read.
    """

    def __init__(self, path: Path, after_seq: int | None = None) -> None:
        self.path, self.last_seq = path, after_seq
        self.overruns = 0
        self.renewed = False
        self._tail, self._overlong = b"", False
        self._second_at, self._reads = 0.0, 0
        self._watch: inotify.Inotify | None = None
        self._log = -1
        self._offset = 0
        self._open()

    @property
    def fd(self) -> int:
        return self._watch.fd if self._watch else self._log

    def close(self) -> None:
        if self._watch:
            self._watch.close()
            self._watch = None
        if self._log >= 0:
            os.close(self._log)
            self._log = -1

    def read(self) -> list[KernelRecord]:
        """The records that are available, at most about _MOST_AT_ONCE. Raises ProbeError if the log
        is gone.
        """
        self._pace(time.monotonic())
        if self._watch is not None:
            self._follow_file(self._watch)
        records: list[KernelRecord] = []
        while self._watch is not None or len(records) < _MOST_AT_ONCE:
            try:
                chunk = os.read(self._log, _READ_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:  # overrun: the next read returns the oldest record
                self.overruns += 1
                continue
            except OSError as error:
                raise ProbeError(f"kernel log {self.path}: {error.strerror}") from None
            if not chunk:
                break
            self._offset += len(chunk)
            records += self._parse(chunk)
        return records

    def read_all(self) -> list[KernelRecord]:
        """All available records; stops after _READ_ALL_S seconds."""
        records, end = self.read(), time.monotonic() + _READ_ALL_S
        while time.monotonic() < end and (more := self.read()):
            records += more
        return records

    def _pace(self, now: float) -> None:
        if now - self._second_at >= 1.0:
            self._second_at, self._reads = now, 0
        self._reads += 1
        if self._reads > _READS_PER_S:
            time.sleep(_PAUSE_S)

    def _open(self) -> None:
        try:
            kind = self.path.stat().st_mode
            # A FIFO opened only for reading polls POLLHUP for ever after its writer closes it.
            mode = os.O_RDWR if stat.S_ISFIFO(kind) else os.O_RDONLY
            self._log = os.open(self.path, mode | os.O_NONBLOCK | os.O_CLOEXEC)
            if stat.S_ISREG(kind):
                # The same instance for every file at this path: ``fd`` must not change.
                self._watch = self._watch or inotify.Inotify()
                self._watch.add(self.path, inotify.MODIFY | inotify.UNLINKED)
                self._forget_foreign_seq()
        except OSError as error:
            self.close()
            raise ProbeError(f"kernel log {self.path}: {error.strerror or error}") from None
        self._offset, self._tail, self._overlong = 0, b"", False

    def _forget_foreign_seq(self) -> None:
        """A file whose last record is older than ``last_seq`` is the log of another boot."""
        if self.last_seq is None:
            return
        # Only the end: a file may have hundreds of megabytes.
        size = os.fstat(self._log).st_size
        tail = os.pread(self._log, 1 << 16, max(0, size - (1 << 16)))
        seqs = [parsed.seq for line in tail.split(b"\n") if (parsed := parse_line(line))]
        if not seqs or seqs[-1] < self.last_seq:
            self.last_seq, self.renewed = None, bool(seqs) or size == 0

    def _follow_file(self, watch: inotify.Inotify) -> None:
        """If the file was truncated or replaced, start again at its first record."""
        watch.read()
        try:
            if self.path.stat().st_ino != os.fstat(self._log).st_ino:
                os.close(self._log)
                self._log = -1
                self.last_seq, self.renewed = None, True
                self._open()
        except OSError as error:
            raise ProbeError(f"kernel log {self.path}: {error.strerror}") from None
        # Truncated in place: reading on would return nothing until the file is as long as before.
        if os.fstat(self._log).st_size < self._offset:
            os.lseek(self._log, 0, os.SEEK_SET)
            self._offset, self._tail, self._overlong = 0, b"", False
            self.last_seq, self.renewed = None, True

    def _parse(self, chunk: bytes) -> list[KernelRecord]:
        lines = (self._tail + chunk).split(b"\n")
        if self._overlong and lines[1:]:  # the rest of a line that was too long
            self._overlong, lines[0] = False, b""
        self._tail = lines.pop()
        # No record of the kernel is as long; without a limit a file without line ends would fill
        # the memory.
        if self._overlong or len(self._tail) > _READ_BYTES:
            self._overlong, self._tail = True, b""
        records = []
        for line in lines:
            record = parse_line(line)
            if record is None or not self._follows(record):
                continue
            # The kernel overwrites the oldest records of its ring buffer; their numbers are then
            # missing.
            lost = 0 if self.last_seq is None else record.seq - self.last_seq - 1
            self.last_seq = record.seq
            records.append(record if not lost else _with_loss(record, lost))
        return records

    def _follows(self, record: KernelRecord) -> bool:
        """False for a record that was read before, and for an impossible sequence number."""
        before = -1 if self.last_seq is None else self.last_seq
        return before < record.seq <= before + _MOST_LOST


def _with_loss(record: KernelRecord, lost: int) -> KernelRecord:
    return KernelRecord(
        facility=record.facility,
        level=record.level,
        seq=record.seq,
        at_s=record.at_s,
        text=record.text,
        lost=lost,
    )


def parse_line(line: bytes) -> KernelRecord | None:
    """One line of the log; None for a dictionary line and for anything that is no record."""
    head, separator, text = line.partition(b";")
    parts = head.split(b",")
    if not separator or len(parts) < 3 or not all(map(_NUMBER.fullmatch, parts[:3])):
        return None
    priority, seq, usec = int(parts[0]), int(parts[1]), int(parts[2])
    plain = _ESCAPE.sub(lambda match: bytes([int(match.group(1), 16)]), text)
    return KernelRecord(
        facility=priority >> 3,
        level=priority & 7,
        seq=seq,
        at_s=usec / 1e6,
        text=plain.decode("utf-8", "replace"),
    )


def plain(text: str) -> str:
    """On one line, in printable ASCII; other bytes as ``\\xNN``. A record may contain names that users
    chose, and its text reaches Slurm, logs and terminals.
    """
    return _UNPRINTABLE.sub(_escaped, " ".join(text.split()))


def _escaped(match: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in match[0].encode("utf-8", "replace"))


def xid_of(record: KernelRecord) -> XidEvent | None:
    """The Xid that a record reports, else None.

    Only facility 0 counts, which user space cannot write. The whole record must match the driver's
    format, because the kernel also prints text that users choose (decision 023).
    """
    text = record.text
    if record.facility or not text.startswith("NVRM: ") or begins_with_user_text(text):
        return None
    match = _XID.fullmatch(text)
    if match:
        pci, number, message = match[1], int(match[2]), (match[3] or "").strip()
    else:
        match = _OFF_THE_BUS.fullmatch(text)
        if not match:
            return None
        pci, number, message = match[1] or match[2] or match[3], 79, "GPU has fallen off the bus"
    recovery = _RECOVERY.fullmatch(message) if number == 154 else None
    return XidEvent(
        xid=number,
        pci=pci_address(pci),
        seq=record.seq,
        at_s=record.at_s,
        text=plain(message)[:300],
        recovery=plain(recovery[2]) if recovery else None,
        recovery_value=int(recovery[1], 16) if recovery else None,
        consequence=bool(_PREVIOUS.search(message)),
    )

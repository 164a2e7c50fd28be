"""The kernel log: a follower that loses nothing silently, and the Xids in it.

Record format (Documentation/ABI/testing/dev-kmsg): ``prio,seq,usec,flags[,…];text``, then ``
KEY=value`` lines. The character device gives one record per read; a FIFO or a file carries the same
records as a byte stream.
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
from slurm_hooks.probes.kmsg_user_text import begins_with_user_text

_READ_BYTES = 8192
"""A shorter buffer makes the device answer EINVAL to a long record."""

_MOST_AT_ONCE = 5000
"""Records that one ``read`` of a device or FIFO gives at most: a kernel that writes faster than we read must
not keep the agent from everything else. The descriptor stays readable; the rest comes with the next.
"""

_READS_PER_S = 100
_PAUSE_S = 0.02
"""Past so many reads in a second each waits so long first, so that the records of a storm come together."""

_WHILE_S = 2.0
"""Enough to read any ring; a storm must not keep the agent from everything else."""

_MOST_LOST = 1 << 40
"""Records that no ring can have lost: a number so far ahead is not the kernel's, and to believe it
would hide everything that comes after it.
"""

_NUMBER = re.compile(rb"[0-9]{1,19}")
"""Of a record's header: below 2^64, so that int() takes it."""
_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")
_PCI = r"(?:PCI:)?([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?"
_XID = re.compile(
    rf"NVRM: Xid \({_PCI}(?: GPU-I:\w{{1,4}})?(?: GPU-CI:\w{{1,4}})?\): ([0-9]{{1,6}})(?:, ?(.*))?",
    re.S,
)
"""The whole record (open-gpu-kernel-modules, krcReportXid, drivers 515 to 595). With MIG, the GPU instance stands
behind the address. The driver prints it with KERN_CONT: its level is the machine's default and says nothing."""

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
"""At the end, and longer than the name of a process, which stands before it."""

_UNPLAIN = re.compile(r"[^ -~]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One kernel-log record. ``lost`` counts the records between the one before and this one."""

    facility: int
    level: int
    seq: int
    at_s: float
    text: str
    lost: int = 0


class KmsgFollower:
    """Follows the kernel log from the record after ``after_seq`` (None: from the oldest that is
    left).

    ``fd`` turns readable when there may be something to ``read``. ``renewed`` is True once after
    the log began anew (a truncated file: the machine was switched on again). Raises ProbeError
    where the log cannot be read.
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

    def read(self) -> list[Record]:
        """The records that are there; of a storm, as many as are bearable at once. Raises ProbeError
        when the log went away."""
        self._pace(time.monotonic())
        if self._watch is not None:
            self._follow_file(self._watch)
        records: list[Record] = []
        while self._watch is not None or len(records) < _MOST_AT_ONCE:
            try:
                chunk = os.read(self._log, _READ_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:  # overrun: the next read is the oldest record left
                self.overruns += 1
                continue
            except OSError as error:
                raise ProbeError(f"kernel log {self.path}: {error.strerror}") from None
            if not chunk:
                break
            self._offset += len(chunk)
            records += self._parse(chunk)
        return records

    def read_all(self) -> list[Record]:
        """All records that are there by now, however many; of a storm those of a while."""
        records, end = self.read(), time.monotonic() + _WHILE_S
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
            # A FIFO opened for reading alone polls POLLHUP for ever once its writer leaves.
            mode = os.O_RDWR if stat.S_ISFIFO(kind) else os.O_RDONLY
            self._log = os.open(self.path, mode | os.O_NONBLOCK | os.O_CLOEXEC)
            if stat.S_ISREG(kind):
                # The same instance for every file that comes to lie here: ``fd`` must not change.
                self._watch = self._watch or inotify.Inotify()
                self._watch.add(self.path, inotify.MODIFY | inotify.UNLINKED)
                self._forget_foreign_seq()
        except OSError as error:
            self.close()
            raise ProbeError(f"kernel log {self.path}: {error.strerror or error}") from None
        self._offset, self._tail, self._overlong = 0, b"", False

    def _forget_foreign_seq(self) -> None:
        """A file whose last record is older than what we remember is another boot's log."""
        if self.last_seq is None:
            return
        size = os.fstat(self._log).st_size
        tail = os.pread(self._log, 1 << 16, max(0, size - (1 << 16)))
        seqs = [parsed.seq for line in tail.split(b"\n") if (parsed := parse_line(line))]
        if not seqs or seqs[-1] < self.last_seq:
            self.last_seq, self.renewed = None, bool(seqs) or size == 0

    def _follow_file(self, watch: inotify.Inotify) -> None:
        """Truncated or replaced: begin again with the new ring."""
        watch.read()
        try:
            if self.path.stat().st_ino != os.fstat(self._log).st_ino:
                os.close(self._log)
                self._log = -1
                self.last_seq, self.renewed = None, True
                self._open()
        except OSError as error:
            raise ProbeError(f"kernel log {self.path}: {error.strerror}") from None
        if os.fstat(self._log).st_size < self._offset:
            os.lseek(self._log, 0, os.SEEK_SET)
            self._offset, self._tail, self._overlong = 0, b"", False
            self.last_seq, self.renewed = None, True

    def _parse(self, chunk: bytes) -> list[Record]:
        lines = (self._tail + chunk).split(b"\n")
        if self._overlong and lines[1:]:  # the rest of a line that is no record, as far as its end
            self._overlong, lines[0] = False, b""
        self._tail = lines.pop()
        if self._overlong or len(self._tail) > _READ_BYTES:
            self._overlong, self._tail = True, b""
        records = []
        for line in lines:
            record = parse_line(line)
            if record is None or not self._follows(record):
                continue
            lost = 0 if self.last_seq is None else record.seq - self.last_seq - 1
            self.last_seq = record.seq
            records.append(record if not lost else _with_loss(record, lost))
        return records

    def _follows(self, record: Record) -> bool:
        """False for a record that was there already, and for a number that cannot be."""
        before = -1 if self.last_seq is None else self.last_seq
        return before < record.seq <= before + _MOST_LOST


def _with_loss(record: Record, lost: int) -> Record:
    return Record(
        facility=record.facility,
        level=record.level,
        seq=record.seq,
        at_s=record.at_s,
        text=record.text,
        lost=lost,
    )


def parse_line(line: bytes) -> Record | None:
    """One line of the log; None for a dictionary line and for anything that is no record."""
    head, separator, text = line.partition(b";")
    parts = head.split(b",")
    if not separator or len(parts) < 3 or not all(map(_NUMBER.fullmatch, parts[:3])):
        return None
    priority, seq, usec = int(parts[0]), int(parts[1]), int(parts[2])
    plain = _ESCAPE.sub(lambda match: bytes([int(match.group(1), 16)]), text)
    return Record(
        facility=priority >> 3,
        level=priority & 7,
        seq=seq,
        at_s=usec / 1e6,
        text=plain.decode("utf-8", "replace"),
    )


def plain(text: str) -> str:
    """On one line, in printable ASCII; the rest as ``\\xNN``. A record holds names that users chose, and
    what is told of it reaches Slurm, logs and terminals."""
    return _UNPLAIN.sub(_escaped, " ".join(text.split()))


def _escaped(match: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in match[0].encode("utf-8", "replace"))


def xid_of(record: Record) -> XidEvent | None:
    """The Xid that a record reports, else None.

    Only facility 0 counts, which user space cannot write, and only a record that is the driver's from
    its first byte to its last: the kernel also prints text that users choose (decision 023).
    """
    text = record.text
    if record.facility or not text.startswith("NVRM: ") or begins_with_user_text(text):
        return None
    match = _XID.fullmatch(text)
    if match:
        pci, number, said = match[1], int(match[2]), (match[3] or "").strip()
    else:
        match = _OFF_THE_BUS.fullmatch(text)
        if not match:
            return None
        pci, number, said = match[1] or match[2] or match[3], 79, "GPU has fallen off the bus"
    recovery = _RECOVERY.fullmatch(said) if number == 154 else None
    return XidEvent(
        xid=number,
        pci=pci_address(pci),
        seq=record.seq,
        at_s=record.at_s,
        text=plain(said)[:300],
        recovery=plain(recovery[2]) if recovery else None,
        recovery_value=int(recovery[1], 16) if recovery else None,
        consequence=bool(_PREVIOUS.search(said)),
    )

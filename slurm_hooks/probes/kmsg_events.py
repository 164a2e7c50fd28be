"""Kernel records → events: SXids, PCIe, memory, disks, filesystems, killed and stuck tasks, mlx5.

Xids have a reader of their own (kmsg.xid_of). Most events are one record (kmsg_rules.py); some take a
few that follow one another: the names of a PCIe error's bits, the report of the firmware, the stack
of a stuck task. What is kept between records is small, and forgotten after seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from slurm_hooks.facts import KernelEvent, pci_address
from slurm_hooks.probes.kmsg import Record
from slurm_hooks.probes.kmsg_rules import CODES, Rule, rule_for

TEXT_CHARS = 300
"""More of a record than this nobody reads, and the memory on disk stays small."""

TOGETHER_S = 5.0
"""Records of one report follow one another within this time."""

MOST_COUNT = 1_000_000
"""No record stands for more errors than this: a larger number is a misread one."""

_SXID = re.compile(
    r"^nvidia-nvswitch\d*: SXid \(PCI:([0-9a-fA-F:]+)(?:\.\d)?\): (\d{5}), "
    r"(?!Severity \d|Data \{)(?:(Fatal|Non-fatal|Correctable), )?(.*)"
)
_FATAL = {"Fatal": True, "Non-fatal": False, "Correctable": False}
_SWITCH_TAKEN_ON = re.compile(r"^nvidia-nvswitch: Probing device ([0-9a-fA-F:]+)\.\d,")
_AER_BIT = re.compile(r"^\S+ ([0-9a-f:]+\.\d):\s+\[ ?\d+\] (\w[\w /-]*?)\s*(?:\(First\))?\s*$")
_APEI = re.compile(
    r"^\{\d+\}\[Hardware Error\]:\s+(?:(?:Error \d+, type|event severity): (?P<severity>\w+)"
    r"|section_type: (?P<section>.+)|device_id: (?P<device>[0-9a-f:]+\.\d))"
)
_APEI_CODES = {
    ("pcie", "fatal"): ("aer", "AER_FATAL", True),
    ("pcie", "recoverable"): ("aer", "AER_NONFATAL", False),
    ("pcie", "corrected"): ("aer", "AER_CORRECTED", False),
    ("memory", "fatal"): ("edac", "DIMM_UNCORRECTED", True),
    ("memory", "recoverable"): ("edac", "DIMM_UNCORRECTED", True),
    ("memory", "corrected"): ("edac", "DIMM_CORRECTED", False),
}
_HUNG = re.compile(r"^INFO: task (.{1,64}):(\d+) blocked for more than (\d+) seconds")
_DRIVER_FRAME = re.compile(
    r"^\s.*\[nvidia(?:_uvm|_modeset|_drm|_peermem|_fs)?(?: [0-9a-f]+)?\]\s*$"
)
_WAITS_IN = re.compile(
    r"\[(fuse|virtiofs|nfs|nfsv4|sunrpc|lustre|ptlrpc|obdclass|xfs|ext4|ceph|mlx5_core|ib_core)\]\s*$"
    r"|\b(request_wait_answer|fuse|virtio_fs|nfs|xfs|ext4|nvme)\w*\+0x"
)
_NAMES = {
    "request_wait_answer": "fuse",
    "virtio_fs": "virtiofs",
    "sunrpc": "nfs",
    "ptlrpc": "lustre",
}
_STACK_END = re.compile(r"^\s*</TASK>")
_OOM_VICTIM = re.compile(r"^oom-kill:constraint=(\w+),.*task_memcg=([^,]*),")
_OOM = re.compile(
    r"^(Memory cgroup o|O)ut of memory:? (?:OOM victim|Kill(?:ed)? process) (\d+) \((.+?)\)(?: |,|$)"
)
_JOB = re.compile(r"/job_(\d+)(?:/|$)")

ALL_CODES = CODES | {"DRIVER_TASK_HUNG", "HUNG_TASK", "OOM_JOB", "OOM_SYSTEM"}
"""Every code that this reader gives, beside ``SXID<number>``."""


@dataclass(slots=True)
class _Report:
    """What the records before say of the next: of one report, forgotten after TOGETHER_S."""

    at_s: float = float("-inf")
    aer: KernelEvent | None = None
    apei_severity: str = ""
    apei_section: str = ""
    task: KernelEvent | None = None
    victim: tuple[str, str] = ("", "")


class EventReader:
    """Reads records in their order; ``read`` gives the events among them. Raises nothing: a record
    that fits no form is no event."""

    def __init__(self) -> None:
        self._report = _Report()

    def read(self, records: Iterable[Record]) -> list[KernelEvent]:
        """The events of these records, oldest first. Only facility 0 counts: the kernel never lets user
        space write it, so nobody can forge a fault."""
        return [
            replace(event, text=" ".join(event.text.split())[:TEXT_CHARS])
            for record in records
            if not record.facility
            for event in self._events(record)
        ]

    def _events(self, record: Record) -> Iterator[KernelEvent]:
        if record.at_s - self._report.at_s > TOGETHER_S:
            self._report = _Report()
        found = list(self._parse(record, self._report))
        if found:
            self._report.at_s = record.at_s
        yield from found

    def _parse(self, record: Record, report: _Report) -> Iterator[KernelEvent]:
        text = record.text
        if "SXid" in text:
            yield from _sxid(record)
        elif "Probing device" in text:
            yield from _switch_taken_on(record)
        elif "blocked for more than" in text:
            yield from _hung_task(record, report)
        elif "of memory" in text or text.startswith("oom-kill:"):
            yield from _oom(record, report)
        elif report.task is not None and text.startswith(" "):
            yield from _stack_frame(record, report)
        elif report.aer is not None and "[" in text and _AER_BIT.match(text):
            yield from _aer_bit(record, report)
        elif "}[Hardware Error]" in text:
            yield from _firmware(record, report)
        else:
            found = rule_for(text)
            if found is not None:
                yield _ruled(record, report, *found)


def _event(
    record: Record, kind: str, code: str, subject: str, *, fatal: bool | None = None
) -> KernelEvent:
    return KernelEvent(
        kind=kind,
        code=code,
        subject=subject[:100],
        text=record.text,
        seq=record.seq,
        at_s=record.at_s,
        fatal=fatal,
    )


def _ruled(record: Record, report: _Report, rule: Rule, match: re.Match[str]) -> KernelEvent:
    said = match.groupdict()
    event = replace(
        _event(record, rule.kind, rule.code, _subject(rule, said), fatal=rule.fatal),
        count=min(int(said["n"][:9]), MOST_COUNT) if said.get("n") else 1,
        over=rule.over,
    )
    report.aer = event if rule.kind == "aer" else None
    return event


def _subject(rule: Rule, said: Mapping[str, str | None]) -> str:
    """PCI addresses are written in either case; names of DIMMs and filesystems mean theirs."""
    name = said.get("on") or "node"
    return name.lower() if rule.kind in ("aer", "mlx5", "driver") else name


def _sxid(record: Record) -> Iterator[KernelEvent]:
    """The line that says what happened; those with the registers of the same error say no more."""
    match = _SXID.match(record.text)
    if match:
        pci, number, word, text = match.groups()
        event = _event(
            record, "sxid", f"SXID{int(number)}", pci_address(pci), fatal=_FATAL.get(word or "")
        )
        yield replace(event, text=f"{word}, {text}" if word else text)


def _switch_taken_on(record: Record) -> Iterator[KernelEvent]:
    """The driver initialises a switch: whatever it said of it before is over."""
    match = _SWITCH_TAKEN_ON.match(record.text)
    if match:
        yield replace(_event(record, "sxid", "SXID", pci_address(match.group(1))), over=True)


def _aer_bit(record: Record, report: _Report) -> Iterator[KernelEvent]:
    """``[ 5] SDES (First)``: which error it was, named after the record that counts."""
    match, event = _AER_BIT.match(record.text), report.aer
    if match and event is not None and match.group(1).lower() == event.subject:
        report.aer = replace(event, text=f"{event.text} {match.group(2)}", count=0)
        yield report.aer


def _firmware(record: Record, report: _Report) -> Iterator[KernelEvent]:
    """The report of a platform that handles errors first (ACPI APEI): severity, section, device."""
    match = _APEI.match(record.text)
    if not match:
        return
    report.at_s = record.at_s
    if match["severity"]:
        report.apei_severity, report.apei_section = match["severity"].lower(), ""
    elif match["section"]:
        report.apei_section = match["section"].partition(" ")[0].lower()
    section, at_section = report.apei_section, bool(match["section"])
    meant = _APEI_CODES.get((section, report.apei_severity))
    if meant and (at_section if section == "memory" else match["device"]):
        kind, code, fatal = meant
        subject = "memory" if section == "memory" else match["device"].lower()
        event = _event(record, kind, code, subject, fatal=fatal)
        yield replace(event, text=f"firmware reports a {report.apei_severity} {section} error")


def _hung_task(record: Record, report: _Report) -> Iterator[KernelEvent]:
    match = _HUNG.match(record.text)
    if match:
        report.task = _event(record, "hung_task", "HUNG_TASK", match.group(1), fatal=False)
        yield report.task


def _stack_frame(record: Record, report: _Report) -> Iterator[KernelEvent]:
    """A frame of the stuck task's stack: what it waits for. In the NVIDIA driver, it is a witness that
    the driver hangs. Frames behind a question mark are what earlier calls left on the stack."""
    report.at_s = record.at_s
    task, text = report.task, record.text
    if task is None or "? " in text:
        return
    where = _WAITS_IN.search(text)
    if _DRIVER_FRAME.match(text):
        report.task = None
        frame = text.split("+0x")[0].split("] ")[-1].strip()
        yield replace(
            task,
            kind="driver",
            code="DRIVER_TASK_HUNG",
            text=f"{task.text} In the NVIDIA driver: {frame}",
        )
    elif where and " Waits in " not in task.text:
        name = where.group(1) or where.group(2)
        report.task = replace(task, text=f"{task.text} Waits in {_NAMES.get(name, name)}.", count=0)
        yield report.task
    elif _STACK_END.match(text):
        report.task = None


def _oom(record: Record, report: _Report) -> Iterator[KernelEvent]:
    victim = _OOM_VICTIM.match(record.text)
    if victim:
        report.victim, report.at_s = (victim.group(1), victim.group(2)), record.at_s
        return
    match = _OOM.match(record.text)
    if not match:
        return
    constraint, group = report.victim
    limited = match.group(1).startswith("Memory") or constraint == "CONSTRAINT_MEMCG"
    job = _JOB.search(group)
    subject = f"job {job.group(1)}" if job else match.group(3)
    report.victim = ("", "")
    yield _event(record, "oom", "OOM_JOB" if limited else "OOM_SYSTEM", subject, fatal=False)

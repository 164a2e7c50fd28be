"""Kernel records → events: SXids, PCIe, memory, disks, filesystems, OOM kills, hung tasks, mlx5.

For Xids see follower.xid_of. Most events are one record (rules.py). Some take several records in a
row: the names of a PCIe error's bits, a report of the firmware, the stack of a hung task. The state
between records is small and dropped after seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from slurm_hooks.facts import KernelEvent, pci_address
from slurm_hooks.node import step_cgroup
from slurm_hooks.probes.kmsg.follower import KernelRecord, plain
from slurm_hooks.probes.kmsg.rules import CODES, TO_CONFIRM, Rule, rule_for
from slurm_hooks.probes.kmsg.user_text import begins_with_user_text

TEXT_CHARS = 300
"""Characters of a record that are kept, so that the agent's state on disk stays small."""

TOGETHER_S = 5.0
"""The records of one report follow each other within this time."""

MOST_COUNT = 1_000_000
"""Most errors that one record may report; a larger number was misread."""

_SXID = re.compile(
    r"nvidia-nvswitch\d*: SXid \(PCI:([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?\): (\d{5}), "
    r"(?!Severity \d|Data \{)(?:(Fatal|Non-fatal|Correctable), )?(.*)",
    re.S,
)
_FATAL = {"Fatal": True, "Non-fatal": False, "Correctable": False}
_SWITCH_TAKEN_ON = re.compile(
    r"nvidia-nvswitch: Probing device ([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})\.[0-7], Vendor Id = 0x.*"
)
_AER_BIT = re.compile(
    r"[\w-]{1,40} ([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]):\s+\[ ?\d+\] (\w[\w /-]*?)\s*(?:\(First\))?\s*"
)
_APEI = re.compile(
    r"\{(?P<report>\d{1,10})\}\[Hardware Error\]:\s+(?:(?:Error \d+, type|event severity): (?P<severity>\w+)"
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
_HUNG = re.compile(
    r"INFO: task (.{0,15}):(\d+) (?:is )?blocked(?: [\w/ -]{1,40})? for more than (\d+) seconds\.",
    re.S,
)
_FRAME = re.compile(
    r"\s+(?:\[<[0-9a-f]{8,16}>\] )?(?P<unsure>\? )?(?P<name>[\w.$]{1,128}\+0x[0-9a-f]+/0x[0-9a-f]+)"
    r"(?: \[(?P<module>[\w-]{1,56})(?: [0-9a-f]{1,40})?\])?\s*"
)
"""One function of a stack, as a whole record, so that a process name cannot complete it."""
_DRIVER_MODULE = re.compile(r"nvidia(?:_uvm|_modeset|_drm|_peermem|_fs)?")
_WAITS_IN_MODULES = re.compile(
    r"fuse|virtiofs|nfs|nfsv4|sunrpc|lustre|ptlrpc|obdclass|xfs|ext4|ceph|mlx5_core|ib_core"
)
_WAITS_IN = re.compile(r"(request_wait_answer|fuse|virtio_fs|nfs|xfs|ext4|nvme)")
_NAMES = {
    "request_wait_answer": "fuse",
    "virtio_fs": "virtiofs",
    "sunrpc": "nfs",
    "ptlrpc": "lustre",
}
_STACK_END = re.compile(r"\s*</TASK>\s*")
_OTHER_STACK = re.compile(r"CPU: \d+ (?:UID: \d+ )?PID: \d+ Comm: .*", re.S)
"""The stack after this record belongs to another report (dump_stack)."""
_OOM_VICTIM = re.compile(
    r"oom-kill:constraint=(\w+),.*,task_memcg=(.*),task=.{0,15},pid=(\d+),uid=\d+", re.S
)
_OOM = re.compile(
    r"(Memory cgroup o|O)ut of memory(?: \(oom_kill_allocating_task\))?:? "
    r"(?:OOM victim|Kill(?:ed)? process) (\d+) \((.{0,15})\)(?:,? (?:total-vm:|UID|score|is already).*)?",
    re.S,
)
_USERS_OWN = re.compile(r"/user\.slice/|/user@\d")
"""Cgroups that systemd delegates to a user, who chooses the names below them."""

ALL_CODES = CODES | {"DRIVER_TASK_HUNG", "HUNG_TASK", "OOM_JOB", "OOM_SYSTEM"}
"""Every code that this reader can return, beside ``SXID<number>``."""


@dataclass(slots=True)
class _Report:
    """State between the records of one report; dropped after TOGETHER_S."""

    at_s: float = float("-inf")
    aer: KernelEvent | None = None
    apei: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Report number → severity and section, for reports of the firmware."""
    task: KernelEvent | None = None
    victims: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Pid → constraint and cgroup, for tasks that are about to be killed."""


class EventReader:
    """Reads records in order. A record that matches no rule is no event; nothing is raised."""

    def __init__(self) -> None:
        self._report = _Report()

    def read(self, records: Iterable[KernelRecord]) -> list[KernelEvent]:
        """The events in these records, oldest first. Only facility 0 counts, which user space cannot
        write, without the records that begin with text that a user chose.
        """
        return [
            replace(event, text=plain(event.text)[:TEXT_CHARS])
            for record in records
            if not record.facility and not begins_with_user_text(record.text)
            for event in self._events(record)
        ]

    def _events(self, record: KernelRecord) -> Iterator[KernelEvent]:
        # A later record that looks like the next part of a report belongs to another one.
        if record.at_s - self._report.at_s > TOGETHER_S:
            self._report = _Report()
        found = list(self._parse(record, self._report))
        if found:
            self._report.at_s = record.at_s
        yield from found

    def _parse(self, record: KernelRecord, report: _Report) -> Iterator[KernelEvent]:
        text = record.text
        for start, parse in _BY_START.items():
            if text.startswith(start):
                yield from parse(record, report)
                return
        # The cheap test first: most records are nothing of this.
        if report.aer is not None and "[" in text and _AER_BIT.fullmatch(text):
            yield from _aer_bit(record, report)
            return
        found = rule_for(text, record.level)
        if found is not None:
            yield _ruled(record, report, *found)


def _event(
    record: KernelRecord, kind: str, code: str, subject: str, *, fatal: bool | None = None
) -> KernelEvent:
    return KernelEvent(
        kind=kind,
        code=code,
        subject=plain(subject)[:100],
        text=record.text,
        seq=record.seq,
        at_s=record.at_s,
        fatal=fatal,
    )


def _ruled(record: KernelRecord, report: _Report, rule: Rule, match: re.Match[str]) -> KernelEvent:
    groups = match.groupdict()
    event = replace(
        _event(record, rule.kind, rule.code, _subject(rule, groups), fatal=rule.fatal),
        count=min(int(groups["n"][:9]), MOST_COUNT) if groups.get("n") else 1,
        over=rule.over,
        confirmed=False if rule.code in TO_CONFIRM else None,
    )
    report.aer = event if rule.kind == "aer" else None
    return event


def _subject(rule: Rule, groups: Mapping[str, str | None]) -> str:
    """PCI addresses in lower case; names of DIMMs and filesystems are case-sensitive."""
    name = groups.get("on") or "node"
    return name.lower() if rule.kind in ("aer", "mlx5", "driver") else name


def _switch(record: KernelRecord, _: _Report) -> Iterator[KernelEvent]:
    """An error of an NVSwitch. Only the record with the error's name counts, not those with its
    registers. When the driver initialises the switch again, its earlier errors are over.
    """
    match = _SXID.fullmatch(record.text)
    if match:
        pci, number, word, text = match.groups()
        event = _event(
            record, "sxid", f"SXID{int(number)}", pci_address(pci), fatal=_FATAL.get(word or "")
        )
        yield replace(event, text=f"{word}, {text}" if word else text)
        return
    match = _SWITCH_TAKEN_ON.fullmatch(record.text)
    if match:
        yield replace(_event(record, "sxid", "SXID", pci_address(match.group(1))), over=True)


def _aer_bit(record: KernelRecord, report: _Report) -> Iterator[KernelEvent]:
    """``[ 5] SDES (First)``: the name of the error, in a record after the one that counts."""
    match, event = _AER_BIT.fullmatch(record.text), report.aer
    # Two devices may report at the same time, and their records are mixed.
    if match and event is not None and match.group(1).lower() == event.subject:
        report.aer = replace(event, text=f"{event.text} {match.group(2)}", count=0)
        yield report.aer


def _firmware(record: KernelRecord, report: _Report) -> Iterator[KernelEvent]:
    """A report of the firmware, which handles errors first (ACPI APEI): severity, section, device."""
    match = _APEI.fullmatch(record.text)
    if not match:
        return
    report.at_s = record.at_s
    severity, section = report.apei.get(match["report"], ("", ""))
    if match["severity"]:
        severity, section = match["severity"].lower(), ""
    elif match["section"]:
        section = match["section"].partition(" ")[0].lower()
    report.apei[match["report"]] = severity, section
    meant, at_section = _APEI_CODES.get((section, severity)), bool(match["section"])
    if meant and (at_section if section == "memory" else match["device"]):
        kind, code, fatal = meant
        subject = "memory" if section == "memory" else match["device"].lower()
        event = _event(record, kind, code, subject, fatal=fatal)
        yield replace(event, text=f"firmware reports a {severity} {section} error")


def _hung_task(record: KernelRecord, report: _Report) -> Iterator[KernelEvent]:
    match = _HUNG.fullmatch(record.text)
    if match:
        report.task = _event(record, "hung_task", "HUNG_TASK", match.group(1), fatal=False)
        yield report.task


def _stack(record: KernelRecord, report: _Report) -> Iterator[KernelEvent]:
    """A frame of the hung task's stack: what the task waits for. A frame in the NVIDIA driver confirms
    that the driver hangs. Frames with a question mark are leftovers of earlier calls.
    """
    task, text = report.task, record.text
    if task is None:
        return
    match = _FRAME.fullmatch(text)
    if _STACK_END.fullmatch(text):
        report.task = None
    if match is None:
        return
    report.at_s = record.at_s
    module, function = match["module"] or "", match["name"].partition("+")[0]
    if match["unsure"]:
        return
    if _DRIVER_MODULE.fullmatch(module):
        report.task = None
        text = f"{task.text} In the NVIDIA driver: {function}"
        yield replace(task, kind="driver", code="DRIVER_TASK_HUNG", text=text)
        return
    known = _WAITS_IN.match(function)
    name = module if _WAITS_IN_MODULES.fullmatch(module) else known.group(1) if known else ""
    if name and " Waits in " not in task.text:
        report.task = replace(task, text=f"{task.text} Waits in {_NAMES.get(name, name)}.", count=0)
        yield report.task


def _another_stack(record: KernelRecord, report: _Report) -> Iterator[KernelEvent]:
    if _OTHER_STACK.fullmatch(record.text):
        report.task = None
    return iter(())


def _oom_victim(record: KernelRecord, report: _Report) -> Iterator[KernelEvent]:
    victim = _OOM_VICTIM.fullmatch(record.text)
    if victim:
        constraint, group, pid = victim.groups()
        # If the cgroup's path itself contains this key, its start is ambiguous.
        clear = record.text.count(",task_memcg=") == 1
        report.victims[pid] = constraint, group if clear else ""
        report.at_s = record.at_s
    return iter(())


def _oom(record: KernelRecord, report: _Report) -> Iterator[KernelEvent]:
    match = _OOM.fullmatch(record.text)
    if not match:
        return
    constraint, group = report.victims.pop(match.group(2), ("", ""))
    limited = match.group(1).startswith("Memory") or constraint == "CONSTRAINT_MEMCG"
    # There a user may name a cgroup like that of any job.
    step = None if _USERS_OWN.search(group) else step_cgroup.find(group)
    subject = f"job {step.job or step.sluid}" if step else match.group(3)
    yield _event(record, "oom", "OOM_JOB" if limited else "OOM_SYSTEM", subject, fatal=False)


_BY_START: Mapping[str, Callable[[KernelRecord, _Report], Iterator[KernelEvent]]] = {
    "nvidia-nvswitch": _switch,
    "INFO: task ": _hung_task,
    " ": _stack,
    "oom-kill:": _oom_victim,
    "Out of memory": _oom,
    "Memory cgroup out of memory": _oom,
    "{": _firmware,
    "CPU: ": _another_stack,
}
"""Start of the records that take more than one rule."""

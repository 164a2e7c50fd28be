"""What the kernel log says."""

from __future__ import annotations

from dataclasses import dataclass

SLOT_S = 600.0
"""Records of one event are counted in slots of this length, for rates over an hour or a day."""

SLOTS = 145
"""Slots that an event keeps: a day and the slot that has just begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class XidEvent:
    """One ``NVRM: Xid`` kernel record (or the Xid-less "fallen off the bus", read as 79).

    ``pci`` as ``0000:5d:00``; ``at_s`` is seconds since boot by the kernel's clock; ``gpu`` and
    ``uuid`` are joined from the node's inventory, None when unknown. ``recovery`` is what an Xid
    154 says ("None", "Node Reboot Required"; other words with other drivers), ``recovery_value`` its
    number, which is NVML's nvmlDeviceGpuRecoveryAction_t (0 none, 1 reset, 2 reboot, …).
    ``consequence`` is True where the driver itself names an earlier Xid as the cause.
    """

    xid: int
    pci: str
    seq: int
    at_s: float
    text: str = ""
    gpu: int | None = None
    uuid: str | None = None
    recovery: str | None = None
    recovery_value: int | None = None
    consequence: bool = False

    @property
    def code(self) -> str:
        return f"XID{self.xid}"

    @property
    def subject(self) -> str:
        return self.uuid or self.pci


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelEvent:
    """All records of this boot that say one thing of one part, other than Xids.

    ``kind``     where it comes from: sxid, aer, mce, edac, nvme, fs, oom, hung_task, mlx5, driver.
    ``code``     the fault catalogue's code, e.g. ``SXID20034`` or ``AER_FATAL``.
    ``subject``  the part: a PCI address as ``0000:5d:00`` (AER: with its function), ``nvme0``,
                 a DIMM's label, a filesystem's device or server, a task's name.
    ``text``     of the newest record; ``seq`` and ``at_s`` (seconds since boot) are its own too.
    ``count``    records so far; a record that stands for several errors counts as so many.
    ``slots``    (number of the slot of SLOT_S since boot, records in it), newest last.
    ``fatal``    what the record itself says: True fatal, False not; None where it does not say.
    ``over``     True for a record that says that it is over ("nfs: server X OK").
    ``confirmed``  whether another probe knows the device too: without that, False, no job is ended for
                 it, since users can bring the kernel to write it of a device of theirs. None: no user can.
    """

    kind: str
    code: str
    subject: str
    text: str
    seq: int
    at_s: float
    count: int = 1
    slots: tuple[tuple[int, int], ...] = ()
    fatal: bool | None = None
    over: bool = False
    confirmed: bool | None = None

    def within(self, window_s: float, now_s: float) -> int:
        """Records of the last ``window_s`` seconds before ``now_s`` (since boot), to a slot's
        precision: never fewer than there were."""
        first = int(max(0.0, now_s - window_s) // SLOT_S)
        return sum(count for slot, count in self.slots if slot >= first)


@dataclass(frozen=True, slots=True, kw_only=True)
class KmsgFacts:
    """The kernel log: what it said in this boot that is not yet resolved, and how many records
    nobody could read. ``now_s``: the time since boot up to which the log is known.
    """

    xids: tuple[XidEvent, ...] = ()
    lost_records: int = 0
    events: tuple[KernelEvent, ...] = ()
    now_s: float = 0.0

    def of(self, *codes: str) -> tuple[KernelEvent, ...]:
        """The events with one of these codes."""
        return tuple(event for event in self.events if event.code in codes)

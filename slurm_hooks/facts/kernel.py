"""Events of the kernel log."""

from __future__ import annotations

from dataclasses import dataclass

SLOT_S = 600.0
"""Records of one event are counted in slots of this length, for rates over an hour or a day."""

SLOTS = 145
"""Slots that are kept per event: one day, and the slot that has just begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class XidEvent:
    """One ``NVRM: Xid`` kernel record (or the Xid-less "fallen off the bus", read as 79).

    ``pci`` as ``0000:5d:00``. ``at_s``: seconds since boot by the kernel's clock. ``gpu``, ``uuid``:
    from the node's inventory; None: unknown. ``recovery``: the action in an Xid 154 ("None", "Node
    Reboot Required"; the text depends on the driver). ``recovery_value``: its number, NVML's
    nvmlDeviceGpuRecoveryAction_t (0 none, 1 reset, 2 reboot, …). ``consequence``: the driver itself
    names an earlier Xid as the cause.
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
    """All records of this boot with one code about one part, other than Xids.

    ``kind``     source of the records: sxid, aer, mce, edac, nvme, fs, oom, hung_task, mlx5, driver.
    ``code``     the fault catalogue's code, e.g. ``SXID20034`` or ``AER_FATAL``.
    ``subject``  the part: a PCI address as ``0000:5d:00`` (AER: with its function), ``nvme0``,
                 a DIMM's label, a filesystem's device or server, a task's name.
    ``text``     of the newest record, as are ``seq`` and ``at_s`` (seconds since boot).
    ``count``    records so far; a record that reports several errors counts as that many.
    ``slots``    (number of the slot of SLOT_S since boot, records in it), newest last.
    ``fatal``    severity in the record itself: True fatal, False not fatal; None: none given.
    ``over``     True for a record that reports the end of the event ("nfs: server X OK").
    ``confirmed``  None: users cannot cause this record. False: users can make the kernel write it
                 about a device of their own, and no other probe knows the device yet, so no job is
                 ended for it. True: another probe knows the device.
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
        """Records of the last ``window_s`` seconds before ``now_s`` (since boot). The first slot
        counts as a whole, so the result may be too high, never too low.
        """
        first = int(max(0.0, now_s - window_s) // SLOT_S)
        return sum(count for slot, count in self.slots if slot >= first)


@dataclass(frozen=True, slots=True, kw_only=True)
class KmsgFacts:
    """The kernel log of this boot: events that are not yet resolved. ``lost_records``: records that
    were overwritten before they were read. ``now_s``: seconds since boot up to which it was read.
    """

    xids: tuple[XidEvent, ...] = ()
    lost_records: int = 0
    events: tuple[KernelEvent, ...] = ()
    now_s: float = 0.0

    def of(self, *codes: str) -> tuple[KernelEvent, ...]:
        """The events with one of these codes."""
        return tuple(event for event in self.events if event.code in codes)

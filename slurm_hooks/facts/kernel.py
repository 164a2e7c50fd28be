"""What the kernel log says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class XidEvent:
    """One ``NVRM: Xid`` kernel record (or the Xid-less "fallen off the bus", read as 79).

    ``pci`` as ``0000:5d:00``; ``at_s`` is seconds since boot by the kernel's clock; ``gpu`` and
    ``uuid`` are joined from the node's inventory, None when unknown. ``recovery`` is what an Xid
    154 says ("None", "Node Reboot Required").
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
    consequence: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KmsgFacts:
    """The kernel log: Xids of this boot that are not yet resolved, and records that nobody could
    read.
    """

    xids: tuple[XidEvent, ...] = ()
    lost_records: int = 0

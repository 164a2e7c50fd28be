"""InfiniBand ports and PCIe links, from sysfs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PortFacts:
    """One InfiniBand port from sysfs. ``seen_active``: it was ACTIVE before on this node, so DOWN
    is a change.

    ``downs_age_s``: how long ago each loss of its link was, as far as the agent remembers (a day);
    None: no baseline yet, or a counter that can count no more.
    """

    device: str
    port: int
    state: str
    phys_state: str = ""
    rate: str = ""
    link_layer: str = ""
    link_downed: int | None = None
    seen_active: bool = False
    downs_age_s: tuple[float, ...] | None = None

    @property
    def subject(self) -> str:
        return f"{self.device}/{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieFacts:
    """PCIe link of one NVIDIA device from sysfs; ``pci`` as ``0000:5d:00``, speeds in GT/s."""

    pci: str
    width: int | None = None
    max_width: int | None = None
    speed_gts: float | None = None
    max_speed_gts: float | None = None

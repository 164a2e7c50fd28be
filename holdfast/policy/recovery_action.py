"""What one GPU needs, out of all who say something of it: pure.

Three sources speak, from the strongest to the weakest: NVML's recovery action (the driver's word on this
moment), Xid 154 in the kernel log (its word on the last change) and the fault catalogue's row of each
other fault (a book's word on a kind of fault). Rules:

- a consequence is heard only where no cause speaks;
- the driver's word outranks the book's, in either direction: it knows this GPU;
- except where the book says that hands are needed: no reset mends a missing power cable;
- two words of the driver that disagree: the one that asks for more, since each may lag behind;
- its word that nothing is needed takes no action away: it may not have noticed yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from holdfast.vocabulary import Action, Severity

RECOVERY_ACTIONS: Mapping[int, tuple[str, Action]] = {
    0: ("nothing", Action.NONE),
    1: ("GPU reset", Action.RESET_GPU),
    2: ("node reboot", Action.REBOOT),
    3: ("drain peer-to-peer", Action.RESET_GPU),
    4: ("drain and reset", Action.RESET_GPU),
    5: ("recover the IMEX domain", Action.NONE),
    6: ("bus reset", Action.REBOOT),
    7: ("system reboot", Action.REBOOT),
}
"""nvmlDeviceGpuRecoveryAction_t, the number that Xid 154 writes too. IMEX is NVLink between nodes, which no
HGX H100 has. The list grows with drivers: a value that is not here is acted on, as a reboot.
"""

_TEXTS: Mapping[str, int] = {
    "none": 0,
    "gpu reset required": 1,
    "pf flr": 1,
    "node reboot required": 2,
    "os reboot": 2,
    "drain p2p": 3,
    "drain and reset": 4,
}
"""The words of Xid 154 in drivers 565 to 610, for records whose number is lost."""

_RANK = {action: rank for rank, action in enumerate(Action)}
_NEEDS_HANDS = (Action.REPLACE, Action.CONTACT_SUPPORT)


class Strength(IntEnum):
    """How much a source knows of this GPU at this moment."""

    BOOK = 0
    LOG = 1
    DRIVER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One source's word. ``source`` names it for people: "NVML recovery action 2 (node reboot)",
    "Xid 79". ``cause``: False for what only follows another fault."""

    source: str
    action: Action
    strength: Strength = Strength.BOOK
    severity: Severity = Severity.FATAL
    cause: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What is to be done, and the strongest evidence that says so."""

    action: Action
    because: Evidence


def fuse(evidence: Iterable[Evidence]) -> Demand | None:
    """One action out of all evidence about one GPU; None where nobody asks for anything."""
    asked = [item for item in evidence if item.action is not Action.NONE]
    causes = [item for item in asked if item.cause]
    counted = causes or asked
    if not counted:
        return None
    words = [item for item in counted if item.strength > Strength.BOOK]
    hands = [
        item for item in counted if item.action in _NEEDS_HANDS and item.severity is Severity.FATAL
    ]
    best = max(words or _condemning(counted), key=_weight)
    if hands and best.action not in _NEEDS_HANDS:
        best = max(hands, key=_weight)
    return Demand(action=best.action, because=best)


def _condemning(counted: list[Evidence]) -> list[Evidence]:
    """The rows of the worst severity alone: an application's fault asks for a restart of the job, which
    says nothing of what the GPU needs."""
    worst = max(item.severity for item in counted)
    return [item for item in counted if item.severity is worst]


def _weight(item: Evidence) -> tuple[int, int]:
    return _RANK[item.action], item.strength


def of_nvml(value: int | None) -> Evidence | None:
    """NVML's recovery action (field 230); None where it is not supported or nothing is asked for."""
    if not value:
        return None
    words, action = RECOVERY_ACTIONS.get(value, ("unknown to us", Action.REBOOT))
    source = f"NVML recovery action {value} ({words})"
    return Evidence(source=source, action=action, strength=Strength.DRIVER)


def of_xid_154(value: int | None, text: str | None) -> Evidence:
    """An Xid 154: by its number, else by its words. What is neither known is acted on, as a reboot."""
    number = value if value is not None else _TEXTS.get((text or "").strip().lower())
    words, action = RECOVERY_ACTIONS.get(
        -1 if number is None else number, (text or "unknown to us", Action.REBOOT)
    )
    return Evidence(source=f"Xid 154 ({words})", action=action, strength=Strength.LOG)

"""The recovery action that one GPU requires, combined from all sources that report on it. Pure.

There are three sources, from the strongest to the weakest: NVML's recovery action (what the driver
reports now), Xid 154 in the kernel log (what the driver reported at the last change) and the fault
catalogue's row of each other fault (what applies to this kind of fault in general). Rules:

- a consequence of another fault counts only where no cause is known;
- the driver outranks the catalogue, in either direction: it knows this GPU;
- except where the catalogue requires a person: no reset repairs a missing power cable;
- if two reports of the driver differ, the stronger action counts, since either may be outdated;
- the driver's report that nothing is required cancels no action: it may not have noticed the fault yet.
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
"""nvmlDeviceGpuRecoveryAction_t; Xid 154 uses the same numbers. IMEX, the service for NVLink between
nodes, does not run on an HGX H100. New drivers add values: an unknown value requires a reboot.
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
"""The texts of Xid 154 in drivers 565 to 610, for records without a number."""

_RANK = {action: rank for rank, action in enumerate(Action)}
_NEEDS_PERSON = (Action.REPLACE, Action.CONTACT_SUPPORT)


class Strength(IntEnum):
    """How much a source knows about this GPU at this moment."""

    CATALOGUE = 0
    LOG = 1
    DRIVER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one source reports. ``source`` is its name in messages: "NVML recovery action 2 (node
    reboot)", "Xid 79". ``cause``: False for a consequence of another fault."""

    source: str
    action: Action
    strength: Strength = Strength.CATALOGUE
    severity: Severity = Severity.FATAL
    cause: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryAction:
    """The required action, and the strongest evidence for it."""

    action: Action
    because: Evidence


def fuse(evidence: Iterable[Evidence]) -> RecoveryAction | None:
    """One action from all evidence about one GPU; None where no action is required."""
    required = [item for item in evidence if item.action is not Action.NONE]
    causes = [item for item in required if item.cause]
    counted = causes or required
    if not counted:
        return None
    from_driver = [item for item in counted if item.strength > Strength.CATALOGUE]
    person = [
        item for item in counted if item.action in _NEEDS_PERSON and item.severity is Severity.FATAL
    ]
    best = max(from_driver or _most_severe(counted), key=_weight)
    if person and best.action not in _NEEDS_PERSON:
        best = max(person, key=_weight)
    return RecoveryAction(action=best.action, because=best)


def _most_severe(counted: list[Evidence]) -> list[Evidence]:
    """Only the rows of the worst severity: an application's fault requires a restart of the job, which is
    no statement about the GPU."""
    worst = max(item.severity for item in counted)
    return [item for item in counted if item.severity is worst]


def _weight(item: Evidence) -> tuple[int, int]:
    return _RANK[item.action], item.strength


def of_nvml(value: int | None) -> Evidence | None:
    """NVML's recovery action (field 230); None where it is not supported or no action is required."""
    if not value:
        return None
    name, action = RECOVERY_ACTIONS.get(value, ("unknown value", Action.REBOOT))
    source = f"NVML recovery action {value} ({name})"
    return Evidence(source=source, action=action, strength=Strength.DRIVER)


def of_xid_154(value: int | None, text: str | None) -> Evidence:
    """An Xid 154: by its number, else by its text. Unknown values require a reboot."""
    number = value if value is not None else _TEXTS.get((text or "").strip().lower())
    name, action = RECOVERY_ACTIONS.get(
        -1 if number is None else number, (text or "unknown value", Action.REBOOT)
    )
    return Evidence(source=f"Xid 154 ({name})", action=action, strength=Strength.LOG)

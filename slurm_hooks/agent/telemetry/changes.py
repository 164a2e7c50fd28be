"""History events from the difference between a node's states at two moments. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from holdfast.findings import Finding
from holdfast.history.event import CLOSED, GPU_REPLACED, INVENTORY, MACHINE_REPLACED, OPENED
from holdfast.vocabulary import Severity
from slurm_hooks.evaluation.judge import OpenFinding
from slurm_hooks.facts import GpuFacts


class HistoryChange(NamedTuple):
    """An event for the history: its name, its facts, and its time if that is not now."""

    event: str
    facts: Mapping[str, Any]
    t: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """The GPU board at one index of the node; ``serial`` is empty if the driver does not report it."""

    uuid: str
    serial: str = ""
    pci: str = ""


Boards = Mapping[int, Board]
"""By NVML's index."""
Key = tuple[str, str, str]
"""A finding's check, code and subject."""


def boards_of(gpus: Iterable[GpuFacts], expected: int) -> dict[int, Board] | None:
    """The node's GPUs; None if not every one reported its UUID: then changes are unknown."""
    found = {
        gpu.index: Board(uuid=gpu.uuid, serial=gpu.serial or "", pci=gpu.pci or "")
        for gpu in gpus
        if gpu.uuid
    }
    return found if len(found) >= expected > 0 else None


def key(finding: Finding) -> Key:
    """Identifies a finding at different moments."""
    return (finding.check, finding.code, finding.subject)


QUIET_S = {Severity.INFO: 3600.0, Severity.WARN: 300.0, Severity.FATAL: 300.0}
"""How long a finding must stay closed before its end is recorded. A finding that flaps is one
episode with a count; otherwise it would displace everything else from a history of limited size.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One finding from its opening on: ``times`` it opened, ``closed_at`` (epoch s) while it is
    closed.
    """

    entry: OpenFinding
    times: int = 1
    closed_at: float | None = None


class Episodes:
    """The findings of a node as episodes. ``before``: the findings already recorded."""

    def __init__(self, before: Iterable[OpenFinding]) -> None:
        self._known = {key(entry.finding): Episode(entry=entry) for entry in before}

    def step(
        self, opened: Iterable[OpenFinding], boards: Boards, now: float
    ) -> list[HistoryChange]:
        """The changes to record, with these findings open now; ``now`` in epoch seconds."""
        current = {key(entry.finding): entry for entry in opened}
        ended = [
            self._ended(which, boards, now) for which in list(self._known) if which not in current
        ]
        changes = [change for change in ended if change is not None]
        for which, entry in current.items():
            known = self._known.get(which)
            if known is None:
                self._known[which] = Episode(entry=entry)
                changes.append(_opening(entry, boards))
            elif known.closed_at is not None:
                self._known[which] = replace(known, times=known.times + 1, closed_at=None)
        return changes

    def finish(self, boards: Boards, now: float) -> list[HistoryChange]:
        """The findings that are closed when the agent stops, however short a time ago."""
        closed = [which for which, known in self._known.items() if known.closed_at is not None]
        return [c for which in closed if (c := self._ended(which, boards, now, quiet=True))]

    def _ended(
        self, which: Key, boards: Boards, now: float, *, quiet: bool = False
    ) -> HistoryChange | None:
        known = self._known[which]
        if known.closed_at is None:
            known = self._known[which] = replace(known, closed_at=now)
        closed_at = known.closed_at or now
        if not quiet and now - closed_at < QUIET_S[known.entry.finding.severity]:
            return None
        del self._known[which]
        facts = about(known.entry.finding, boards)
        if known.entry.since:
            facts["open_s"] = round(max(0.0, closed_at - known.entry.since), 1)
        if known.times > 1:
            facts["times"] = known.times
        return HistoryChange(CLOSED, facts, closed_at)


def _opening(entry: OpenFinding, boards: Boards) -> HistoryChange:
    finding = entry.finding
    facts = about(finding, boards)
    facts |= {"severity": finding.severity.name.lower(), "action": finding.action.value}
    facts |= {"mode": entry.mode.value, "detail": finding.detail, "cause": finding.cause}
    return HistoryChange(OPENED, facts, entry.since or None)


def about(finding: Finding, boards: Boards) -> dict[str, Any]:
    """The facts that identify a finding's fault and its board."""
    facts = {"code": finding.code, "check": finding.check, "subject": finding.subject}
    return {**facts, **board_of(finding.subject, finding.gpu, boards)}


def board_of(subject: str, gpu: int | None, boards: Boards) -> dict[str, Any]:
    """``gpu``, ``gpu_uuid`` and ``serial`` of a fault, as far as they are known."""
    if gpu is None:
        return {}
    # A fault names its GPU by UUID, because another board may be at this index by now.
    board = boards.get(gpu)
    uuid = subject if subject.startswith("GPU-") else board.uuid if board else ""
    serial = board.serial if board and board.uuid == uuid else ""
    return {"gpu": gpu, "gpu_uuid": uuid or None, "serial": serial or None}


def of_boards(before: Boards | None, after: Boards, *, booted: bool) -> Iterator[HistoryChange]:
    """The GPUs that were replaced, and the inventory if it changed or the node booted.

    ``before``: None if unknown. A GPU that only got another index is the same GPU.
    """
    old = {board.uuid for board in before.values()} if before else set()
    new = {board.uuid for board in after.values()}
    if before and not old & new:
        yield HistoryChange(MACHINE_REPLACED, {"detail": "all GPUs are different"})
    elif before:
        yield from _replaced(before, after, old, new)
    if booted or before is None or old != new:
        gpus = [
            {"gpu": index, "gpu_uuid": board.uuid, "serial": board.serial, "pci": board.pci}
            for index, board in sorted(after.items())
        ]
        yield HistoryChange(INVENTORY, {"gpus": gpus})


def _replaced(
    before: Boards, after: Boards, old: set[str], new: set[str]
) -> Iterator[HistoryChange]:
    gone = {board.pci or index: board for index, board in before.items() if board.uuid not in new}
    for index, board in sorted(after.items()):
        if board.uuid in old:
            continue
        was = gone.get(board.pci or index) or gone.get(index)
        detail = f"GPU {index}: {was.uuid if was else 'unknown'} replaced by {board.uuid}"
        yield HistoryChange(
            GPU_REPLACED,
            {
                "detail": detail,
                "gpu": index,
                "gpu_uuid": board.uuid,
                "serial": board.serial or None,
                "replaced_uuid": was.uuid if was else None,
                "replaced_serial": was.serial or None if was else None,
            },
        )

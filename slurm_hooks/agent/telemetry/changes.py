"""What is worth writing down: the difference between two moments of a node. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from holdfast.findings import Finding
from holdfast.history.event import CLOSED, GPU_REPLACED, INVENTORY, MACHINE_REPLACED, OPENED
from holdfast.vocabulary import Severity
from slurm_hooks.evaluation.judge import Opened
from slurm_hooks.facts import GpuFacts


class Change(NamedTuple):
    """One event to be: its name, its time if it is not now, and what it says."""

    event: str
    facts: Mapping[str, Any]
    t: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """The GPU in one place of the node; ``serial`` is the board's, empty where it is not told."""

    uuid: str
    serial: str = ""
    pci: str = ""


Boards = Mapping[int, Board]
"""By NVML's index."""
Key = tuple[str, str, str]
"""A finding's check, code and subject."""


def boards_of(gpus: Iterable[GpuFacts], expected: int) -> dict[int, Board] | None:
    """The node's GPUs; None where not every one told its name: then nothing is said of changes."""
    found = {
        gpu.index: Board(uuid=gpu.uuid, serial=gpu.serial or "", pci=gpu.pci or "")
        for gpu in gpus
        if gpu.uuid
    }
    return found if len(found) >= expected > 0 else None


def key(finding: Finding) -> Key:
    """The same finding at two moments."""
    return (finding.check, finding.code, finding.subject)


QUIET_S = {Severity.INFO: 3600.0, Severity.WARN: 300.0, Severity.FATAL: 300.0}
"""How long a finding stays closed before that is written down: what flaps is one episode with a
count, or it would push everything else out of a bounded history.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One finding from its opening on: ``times`` it opened, ``closed_at`` (epoch s) while it is
    closed.
    """

    entry: Opened
    times: int = 1
    closed_at: float | None = None


class Episodes:
    """The findings of a node, told as episodes. ``before``: those that were told already."""

    def __init__(self, before: Iterable[Opened]) -> None:
        self._known = {key(entry.finding): Episode(entry=entry) for entry in before}

    def step(self, opened: Iterable[Opened], boards: Boards, now: float) -> list[Change]:
        """What is to be told, with these findings open now; ``now`` in epoch seconds."""
        there = {key(entry.finding): entry for entry in opened}
        told = [
            self._ended(which, boards, now) for which in list(self._known) if which not in there
        ]
        changes = [change for change in told if change is not None]
        for which, entry in there.items():
            known = self._known.get(which)
            if known is None:
                self._known[which] = Episode(entry=entry)
                changes.append(_opening(entry, boards))
            elif known.closed_at is not None:
                self._known[which] = replace(known, times=known.times + 1, closed_at=None)
        return changes

    def finish(self, boards: Boards, now: float) -> list[Change]:
        """What is closed at the agent's end, however short a time ago."""
        closed = [which for which, known in self._known.items() if known.closed_at is not None]
        return [c for which in closed if (c := self._ended(which, boards, now, quiet=True))]

    def _ended(
        self, which: Key, boards: Boards, now: float, *, quiet: bool = False
    ) -> Change | None:
        known = self._known[which]
        if known.closed_at is None:
            known = self._known[which] = replace(known, closed_at=now)
        closed_at = known.closed_at or now
        if not quiet and now - closed_at < QUIET_S[known.entry.finding.severity]:
            return None
        del self._known[which]
        said = about(known.entry.finding, boards)
        if known.entry.since:
            said["open_s"] = round(max(0.0, closed_at - known.entry.since), 1)
        if known.times > 1:
            said["times"] = known.times
        return Change(CLOSED, said, closed_at)


def _opening(entry: Opened, boards: Boards) -> Change:
    found = entry.finding
    said = about(found, boards)
    said |= {"severity": found.severity.name.lower(), "action": found.action.value}
    said |= {"mode": entry.mode.value, "detail": found.detail, "cause": found.cause}
    return Change(OPENED, said, entry.since or None)


def about(finding: Finding, boards: Boards) -> dict[str, Any]:
    """What names a finding's fault and the board that it was seen on."""
    said = {"code": finding.code, "check": finding.check, "subject": finding.subject}
    return {**said, **board_of(finding.subject, finding.gpu, boards)}


def board_of(subject: str, gpu: int | None, boards: Boards) -> dict[str, Any]:
    """``gpu``, ``gpu_uuid`` and ``serial`` of a fault, as far as they are known."""
    if gpu is None:
        return {}
    # A fault names its GPU by UUID: what lies in the place now may be another one already.
    there = boards.get(gpu)
    uuid = subject if subject.startswith("GPU-") else there.uuid if there else ""
    serial = there.serial if there and there.uuid == uuid else ""
    return {"gpu": gpu, "gpu_uuid": uuid or None, "serial": serial or None}


def of_boards(before: Boards | None, after: Boards, *, booted: bool) -> Iterator[Change]:
    """GPUs that were replaced, and the list of those that are there where it is news.

    ``before``: None when nothing is known. A GPU that only got another index is the same one.
    """
    old = {board.uuid for board in before.values()} if before else set()
    new = {board.uuid for board in after.values()}
    if before and not old & new:
        yield Change(MACHINE_REPLACED, {"detail": "every GPU is another one"})
    elif before:
        yield from _replaced(before, after, old, new)
    if booted or before is None or old != new:
        gpus = [
            {"gpu": index, "gpu_uuid": board.uuid, "serial": board.serial, "pci": board.pci}
            for index, board in sorted(after.items())
        ]
        yield Change(INVENTORY, {"gpus": gpus})


def _replaced(before: Boards, after: Boards, old: set[str], new: set[str]) -> Iterator[Change]:
    gone = {board.pci or index: board for index, board in before.items() if board.uuid not in new}
    for index, board in sorted(after.items()):
        if board.uuid in old:
            continue
        was = gone.get(board.pci or index) or gone.get(index)
        detail = f"GPU {index}: {was.uuid if was else 'unknown'} gave place to {board.uuid}"
        yield Change(
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

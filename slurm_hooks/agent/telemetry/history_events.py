"""The agent's own events for the history: what changed since it looked last, told once.

Called after the verdict is out and Slurm is asked (law 8); nothing here waits or raises.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence

from holdfast.history.event import (
    AGENT_ENDED,
    AGENT_STARTED,
    BOOT,
    CLOSED,
    MEMORY_LOST,
    OVER_BUDGET,
    WITHDRAWN,
)
from holdfast.version import VERSION
from holdfast.vocabulary import Mode
from slurm_hooks.agent.drain.messages import AuditEntry, SlurmStatus
from slurm_hooks.agent.telemetry import changes
from slurm_hooks.agent.telemetry.changes import Board, Boards, Change, Episodes
from slurm_hooks.agent.telemetry.recorder import Recorder
from slurm_hooks.evaluation.judge import Opened
from slurm_hooks.facts import GpuFacts
from slurm_hooks.tracking.node import TrackedState


class HistoryEvents:
    """``tracked`` is what an earlier agent left, as it was read: it tells what was known before.
    ``kept`` is what of it holds in this boot.
    """

    def __init__(
        self, recorder: Recorder, tracked: TrackedState, kept: TrackedState, expected_gpus: int
    ) -> None:
        self._recorder, self._expected_gpus = recorder, expected_gpus
        self._episodes = Episodes(_open_in(kept))
        still = {changes.key(entry.finding) for entry in _open_in(kept)}
        self._closed_by_reboot = [e for e in _open_in(tracked) if changes.key(e.finding) not in still]
        self._memory_lost = tracked.lost_and_empty
        self._booted = tracked.boot_id != recorder.boot_id and not self._memory_lost
        self._boot_before = tracked.boot_id
        self._boards: Boards | None = _boards_in(tracked)
        self._known: Boards = self._boards or {}
        self._over_budget = False

    def started(self, *, crashed: bool) -> None:
        """The agent begins; ``crashed``: the one before it, in this boot, did not end in order."""
        if self._memory_lost:  # whether it booted meanwhile is lost with it
            self._recorder.note(MEMORY_LOST)
        if self._booted:
            self._recorder.note(BOOT, before=self._boot_before or None)
            for entry in self._closed_by_reboot:
                said = changes.about(entry.finding, self._known)
                self._recorder.note(CLOSED, why="reboot", **said)
        after = "reboot" if self._booted else "crash" if crashed else "stop"
        self._recorder.note(AGENT_STARTED, version=VERSION, pid=os.getpid(), after=after)

    def ended(self, *, restart: bool) -> None:
        self._note(self._episodes.finish(self._known, time.time()))
        self._recorder.note(AGENT_ENDED, why="new configuration" if restart else "told to end")

    def record_gpus(self, gpus: Iterable[GpuFacts]) -> None:
        """One whole reading of the driver."""
        boards = changes.boards_of(gpus, self._expected_gpus)
        if boards is None:
            return
        self._note(changes.of_boards(self._boards, boards, booted=self._booted))
        self._boards, self._known, self._booted = boards, boards, False

    def record_findings(self, opened: Sequence[Opened]) -> None:
        """The open findings of this moment."""
        self._note(self._episodes.step(opened, self._known, time.time()))

    def record_changes(self, entries: Iterable[AuditEntry], slurm_status: SlurmStatus) -> None:
        """What was done in Slurm, and whether the node should have left service and could not."""
        done = list(entries)
        for entry in done:
            if entry.event:
                board = changes.board_of(entry.subject, entry.gpu, self._known)
                said = ("code", "action", "check", "verdict")
                facts = {**{name: getattr(entry, name) or None for name in said}, **board}
                self._recorder.note(entry.event, detail=entry.text, **facts)
        over = slurm_status.action == "over-budget"
        told = any(entry.event == WITHDRAWN for entry in done)
        if over and not told and not self._over_budget:
            self._recorder.note(OVER_BUDGET, detail=slurm_status.reason or slurm_status.why)
        self._over_budget = over

    def _note(self, found: Iterable[Change]) -> None:
        for change in found:
            self._recorder.note(change.event, t=change.t, **change.facts)


def _open_in(tracked: TrackedState) -> list[Opened]:
    return [
        Opened(finding=streak.finding, mode=Mode.OBSERVE, since=streak.since)
        for streak in tracked.streaks.values()
        if streak.open
    ]


def _boards_in(tracked: TrackedState) -> dict[int, Board] | None:
    """The GPUs that an earlier agent saw, which reboots do not change; None: none."""
    found = {
        index: Board(uuid=gpu.uuid, serial=gpu.serial or "", pci=gpu.pci or "")
        for index, gpu in tracked.gpus.items()
        if gpu.uuid
    }
    return found or None

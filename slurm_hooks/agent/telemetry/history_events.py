"""The agent's events for the history: each change is recorded once.

Called after the verdict is published and the drain is started (rule 8); nothing here waits or
raises.
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
    KILL_SWITCHES,
    OVER_BUDGET,
    STATE_LOST,
    WITHDRAWN,
)
from holdfast.version import VERSION
from holdfast.vocabulary import Mode
from slurm_hooks.agent.drain.messages import AuditEntry, SlurmStatus
from slurm_hooks.agent.telemetry import changes
from slurm_hooks.agent.telemetry.changes import Board, Boards, Episodes, HistoryChange
from slurm_hooks.agent.telemetry.recorder import Recorder
from slurm_hooks.evaluation.judge import OpenFinding
from slurm_hooks.facts import GpuFacts
from slurm_hooks.tracking.node import TrackedState


class HistoryEvents:
    """``tracked`` is the state that an earlier agent left, as it was read. ``kept`` is what of it
    is valid in this boot.
    """

    def __init__(
        self, recorder: Recorder, tracked: TrackedState, kept: TrackedState, expected_gpus: int
    ) -> None:
        self._recorder, self._expected_gpus = recorder, expected_gpus
        self._episodes = Episodes(_open_in(kept))
        still = {changes.key(entry.finding) for entry in _open_in(kept)}
        self._closed_by_reboot = [
            e for e in _open_in(tracked) if changes.key(e.finding) not in still
        ]
        self._state_lost = tracked.lost_and_empty
        self._booted = tracked.boot_id != recorder.boot_id and not self._state_lost
        self._boot_before = tracked.boot_id
        self._boards: Boards | None = _boards_in(tracked)
        self._known: Boards = self._boards or {}
        self._over_budget = False
        self._switches: frozenset[str] = frozenset()

    def started(self, *, crashed: bool, switches: frozenset[str] = frozenset()) -> None:
        """The agent started; ``crashed``: the previous one in this boot did not stop cleanly;
        ``switches``: the kill switches that are on."""
        self._switches = switches
        if self._state_lost:  # so it is unknown whether the node booted meanwhile
            self._recorder.note(STATE_LOST)
        if self._booted:
            self._recorder.note(BOOT, before=self._boot_before or None)
            for entry in self._closed_by_reboot:
                facts = changes.about(entry.finding, self._known)
                self._recorder.note(CLOSED, why="reboot", **facts)
        after = "reboot" if self._booted else "crash" if crashed else "stop"
        self._recorder.note(
            AGENT_STARTED,
            version=VERSION,
            pid=os.getpid(),
            after=after,
            on=sorted(self._switches) or None,
        )

    def ended(self, *, restart: bool) -> None:
        self._note(self._episodes.finish(self._known, time.time()))
        self._recorder.note(AGENT_ENDED, why="new configuration" if restart else "stopped")

    def record_gpus(self, gpus: Iterable[GpuFacts]) -> None:
        """The GPUs of one pass."""
        boards = changes.boards_of(gpus, self._expected_gpus)
        if boards is None:
            return
        self._note(changes.of_boards(self._boards, boards, booted=self._booted))
        self._boards, self._known, self._booted = boards, boards, False

    def record_switches(self, switches: frozenset[str]) -> None:
        """The kill switches that are on now."""
        if switches != self._switches:
            self._recorder.note(KILL_SWITCHES, on=sorted(switches))
        self._switches = switches

    def record_findings(self, opened: Sequence[OpenFinding]) -> None:
        """The findings that are open now."""
        self._note(self._episodes.step(opened, self._known, time.time()))

    def record_changes(self, entries: Iterable[AuditEntry], slurm_status: SlurmStatus) -> None:
        """The changes in Slurm, and whether the node had to stay in service because of the budget."""
        done = list(entries)
        for entry in done:
            if entry.event:
                board = changes.board_of(entry.subject, entry.gpu, self._known)
                names = ("code", "action", "check", "verdict")
                facts = {**{name: getattr(entry, name) or None for name in names}, **board}
                self._recorder.note(entry.event, detail=entry.text, **facts)
        over = slurm_status.action == "over-budget"
        recorded = any(entry.event == WITHDRAWN for entry in done)
        if over and not recorded and not self._over_budget:
            self._recorder.note(OVER_BUDGET, detail=slurm_status.reason or slurm_status.why)
        self._over_budget = over

    def _note(self, found: Iterable[HistoryChange]) -> None:
        """Record the changes."""
        for change in found:
            self._recorder.note(change.event, t=change.t, **change.facts)


def _open_in(tracked: TrackedState) -> list[OpenFinding]:
    return [
        OpenFinding(finding=streak.finding, mode=Mode.OBSERVE, since=streak.since)
        for streak in tracked.streaks.values()
        if streak.open
    ]


def _boards_in(tracked: TrackedState) -> dict[int, Board] | None:
    """The GPUs that an earlier agent recorded; a reboot does not change them. None: none."""
    found = {
        index: Board(uuid=gpu.uuid, serial=gpu.serial or "", pci=gpu.pci or "")
        for index, gpu in tracked.gpus.items()
        if gpu.uuid
    }
    return found or None

"""The tracked state on the disk: written after each change, never waited for longer than a second."""

from __future__ import annotations

import time

from holdfast.adapters.log import Log
from holdfast.config.schema import PathsConfig
from slurm_hooks.tracking import store
from slurm_hooks.tracking.node import TrackedState
from slurm_hooks.worker.bounded_write import BoundedWrite

log = Log("agent")

_SAVE_AGAIN_S = 300.0
"""Unchanged state is written again after this time, so that a disk that takes no writes is noticed
early."""


class SavedState:
    """``recalled``: what an earlier agent saved. ``problem``: why the last state could not be written; empty:
    it could."""

    def __init__(self, paths: PathsConfig) -> None:
        self._path = store.path_in(paths.state)
        self.recalled = self._saved = store.recall(self._path)
        self._saved_at = time.monotonic()
        self._write = BoundedWrite(paths.run / "stuck" / "agent.json")
        self.problem = ""

    def save(self, tracked: TrackedState) -> None:
        """Write the state if that is due. Never raises."""
        now = time.monotonic()
        lately = now - self._saved_at < _SAVE_AGAIN_S and not self.problem
        if tracked == self._saved and lately:
            return
        problem = self._write(lambda: store.save(self._path, tracked))
        if problem and problem != self.problem:
            log.error("tracked state not written", why=problem)
        if not problem:
            self._saved, self._saved_at = tracked, now
        self.problem = problem

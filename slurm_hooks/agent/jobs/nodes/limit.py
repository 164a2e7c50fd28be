"""How often a job's nodes may be kept free while it runs.

A user decides what the launcher says, and where jobs share nodes the reservation keeps other users' jobs off too. So
it is made only where the job's batch script runs, and seldom in each of the job's runs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from slurm_hooks.job.marker import Marker

AGAIN_S = 600.0
"""Between two reservations for one run of a job. Each lasts a minute at most."""


class KeepLimit:
    """Its files are in a folder of root's, so it holds for a new worker or agent too. ``wall``: epoch seconds."""

    def __init__(
        self,
        run_dir: Path,
        script_runs: Callable[[int], bool],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._folder, self._script_runs, self._wall = run_dir / "kept", script_runs, wall

    def allows(self, marker: Marker, *, runs: bool) -> bool:
        """``runs``: the job runs still, so its batch script must run here."""
        return not self._is_recent(self._file(marker)) and (
            not runs or self._script_runs(marker.job)
        )

    def note(self, marker: Marker) -> bool:
        """Before a reservation is made. False: it cannot be noted, so none may be made."""
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            for path in self._folder.iterdir():
                if not self._is_recent(path):
                    path.unlink(missing_ok=True)
            file, now = self._file(marker), self._wall()
            file.touch()
            os.utime(file, (now, now))
        except OSError:
            return False
        return True

    def _is_recent(self, path: Path) -> bool:
        try:
            return 0 <= self._wall() - path.stat().st_mtime < AGAIN_S
        except OSError:
            return False

    def _file(self, marker: Marker) -> Path:
        return self._folder / f"{marker.job}.{marker.restarts}"

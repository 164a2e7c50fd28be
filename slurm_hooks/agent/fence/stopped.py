"""Which attempts this node's agent has stopped: a file in ``/run``, so that the next agent lets them go on."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from holdfast.adapters.state_file import write_atomic
from slurm_hooks.agent.fence.tasks import Attempt
from slurm_hooks.job.fence.newer import Run

_MAX_BYTES = 16 << 20
"""Of 16 users with 16 attempts each, whose journals have the longest paths: 7 MiB."""


class Stopped:
    """The file ``stopped.json`` of the agent's folder, which only root can write."""

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / "stopped.json"
        self._now = self._read()

    def of(self, jobs: Collection[int]) -> frozenset[Attempt]:
        return frozenset(attempt for attempt in self._now if attempt.job in jobs)

    def keep(self, stopped: frozenset[Attempt]) -> str:
        """Writes a change. Why it could not be written, or an empty text."""
        if stopped == self._now:
            return ""
        try:
            write_atomic(self._path, json.dumps(sorted(map(list, stopped), key=str)), durable=False)
        except OSError as error:
            return error.strerror or str(error)
        self._now = stopped
        return ""

    def _read(self) -> frozenset[Attempt]:
        try:
            with self._path.open("rb") as file:
                rows = json.loads(file.read(_MAX_BYTES))
            return frozenset(
                Attempt(int(job), str(journal), int(number), Run(int(run[0]), float(run[1])))
                for job, journal, number, run in rows
            )
        except (OSError, ValueError, TypeError, IndexError):
            return frozenset()

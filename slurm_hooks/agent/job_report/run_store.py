"""The known on disk: what a restarted agent goes on from. Another boot's is worth nothing."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from holdfast.adapters.durable_file import Bounded, at_once
from holdfast.adapters.log import Log
from holdfast.adapters.state_file import put_aside, read_state, write_state
from holdfast.adapters.typed_json import typed
from slurm_hooks.agent.job_report import counter_deltas
from slurm_hooks.agent.job_report.runs import Run, Runs

log = Log("agent")

VERSION = 1


_SAVE_S = 60.0
"""Counters that merely grow are not worth a write at each pass."""


class RunStore:
    """The file ``jobs.json`` of the state folder."""

    def __init__(self, state: Path, boot_id: str, write: Bounded = at_once) -> None:
        self._write = write
        self.path, self._boot_id = state / "jobs.json", boot_id
        self._kept, self._kept_at = Runs(), 0.0

    def load(self) -> tuple[Runs, str]:
        """(known, problem). Nothing there, or another boot's: an empty one, and no problem. A file that
        cannot be read is put aside, so that it is told once.
        """
        said, problem = read_state(self.path, version=VERSION)
        if said is None:
            return self._without(problem or "")
        if said.get("boot_id") != self._boot_id:
            return Runs(), ""
        try:
            runs = typed(said.get("runs"), tuple[Run, ...], "runs")
        except ValueError as error:
            return self._without(f"{self.path}: {error}; going on without it")
        self._kept = Runs(runs={run.key: run for run in runs})
        return self._kept, ""

    def _without(self, problem: str) -> tuple[Runs, str]:
        if problem:
            put_aside(self.path)
        return Runs(), problem

    def save(self, known: Runs) -> None:
        """Writes what is new; what only grew waits. Where it cannot, the log says so."""
        if known is self._kept or known == self._kept:
            return
        merely_grew = _outline(known) == _outline(self._kept)
        if merely_grew and time.monotonic() - self._kept_at < _SAVE_S:
            return
        runs = [_as_json(run) for run in known.runs.values()]
        said = {"boot_id": self._boot_id, "runs": runs}

        def write() -> None:
            write_state(self.path, said, version=VERSION)

        problem = self._write(write)
        if problem:
            log.error("jobs not written down", why=problem)
        else:
            self._kept, self._kept_at = known, time.monotonic()


def _outline(kept: Runs) -> object:
    """What of the known must be on disk at once: all but the counters' last values."""
    return [(run.key, run.ended_s, run.baseline_s, run.xids) for run in kept.runs.values()]


def _as_json(run: Run) -> dict[str, Any]:
    return {
        **{name: getattr(run, name) for name in _PLAIN},
        "gpus": None if run.gpus is None else sorted(run.gpus),
        "deltas": counter_deltas.as_json(run.deltas),
        "memory": dict(run.memory),
        "xids": [asdict(found) for found in run.xids],
    }


_PLAIN = (
    "job",
    "restarts",
    "started_s",
    "uid",
    "het_job",
    "skip",
    "ended_s",
    "baseline_s",
    "no_judgement",
)

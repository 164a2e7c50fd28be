"""The runs on disk, from which a restarted agent continues. Those of an earlier boot are ignored."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from holdfast.adapters.durable_file import Bounded, at_once
from holdfast.adapters.log import Log
from holdfast.adapters.state_file import put_aside, read_state, write_state
from holdfast.adapters.typed_json import typed
from slurm_hooks.agent.job_runs import counter_deltas
from slurm_hooks.agent.job_runs.runs import JobRun, Runs

log = Log("agent")

VERSION = 1


_SAVE_S = 60.0
"""Seconds between writes if only counters grew."""


class RunStore:
    """The file ``jobs.json`` of the state folder."""

    def __init__(self, state: Path, boot_id: str, write: Bounded = at_once) -> None:
        self._write = write
        self.path, self._boot_id = state / "jobs.json", boot_id
        self._kept, self._kept_at = Runs(), 0.0

    def load(self) -> tuple[Runs, str]:
        """(runs, problem). No file, or one of an earlier boot: no runs and no problem. A file that
        cannot be read is renamed, so that it is reported only once.
        """
        value, problem = read_state(self.path, version=VERSION)
        if value is None:
            return self._without(problem or "")
        if value.get("boot_id") != self._boot_id:
            return Runs(), ""
        try:
            runs = typed(value.get("runs"), tuple[JobRun, ...], "runs")
        except ValueError as error:
            return self._without(f"{self.path}: {error}; ignored")
        self._kept = Runs(runs={run.key: run for run in runs})
        return self._kept, ""

    def _without(self, problem: str) -> tuple[Runs, str]:
        if problem:
            put_aside(self.path)
        return Runs(), problem

    def save(self, known: Runs) -> None:
        """Write changes; counters that only grew may wait. A failure is logged."""
        if known is self._kept or known == self._kept:
            return
        only_counters = _outline(known) == _outline(self._kept)
        if only_counters and time.monotonic() - self._kept_at < _SAVE_S:
            return
        runs = [_as_json(run) for run in known.runs.values()]
        value = {"boot_id": self._boot_id, "runs": runs}

        def write() -> None:
            write_state(self.path, value, version=VERSION)

        problem = self._write(write)
        if problem:
            log.error("list of runs not written", why=problem)
        else:
            self._kept, self._kept_at = known, time.monotonic()


def _outline(kept: Runs) -> object:
    """What has to be on disk at once: everything but the counters' last values."""
    return [
        (run.key, run.ended_s, run.baseline_s, run.xids, run.lost_steps)
        for run in kept.runs.values()
    ]


def _as_json(run: JobRun) -> dict[str, Any]:
    return {
        **{name: getattr(run, name) for name in _PLAIN},
        "gpus": None if run.gpus is None else sorted(run.gpus),
        "deltas": counter_deltas.as_json(run.deltas),
        "memory": dict(run.memory),
        "xids": [asdict(found) for found in run.xids],
        "lost_steps": [asdict(found) for found in run.lost_steps],
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

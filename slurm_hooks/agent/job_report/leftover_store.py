"""The leftovers of ended jobs that are still alive, checked again at each pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from holdfast.adapters.durable_file import Bounded, at_once
from holdfast.adapters.log import Log
from holdfast.adapters.state_file import read_state, write_state
from slurm_hooks.agent.job_report import leftovers
from slurm_hooks.agent.job_report.report import Leftover
from slurm_hooks.agent.job_runs.runs import JobRun
from slurm_hooks.facts import NodeFacts
from slurm_hooks.facts.leftovers import LeftoverFacts
from slurm_hooks.node.process import Process

log = Log("agent")

_VERSION = 1


class LeftoverStore:
    """``facts`` lists the processes that ended jobs left and that are alive. Only files that need
    no lock are read. They are saved to disk too, so that a restarted agent does not take the node
    for clean.
    """

    def __init__(self, procfs: Path, state: Path, boot_id: str, write: Bounded = at_once) -> None:
        self._write = write
        self._procfs = str(procfs)
        self._path, self._boot_id = state / "leftovers.json", boot_id
        self._left, problem = _load(self._path, boot_id)
        if problem:
            log.error("list of job leftovers lost", why=problem)
        self._kept = self._record()

    @property
    def facts(self) -> tuple[LeftoverFacts, ...]:
        return tuple(left for left, _ in self._left)

    def add(self, run: JobRun, left: Iterable[Leftover]) -> None:
        """Add what a run left behind."""
        processes = tuple(left)
        starts = {process.pid: process.start for process in processes}
        for leftover in leftovers.still_there(run, processes):
            self._left.append((leftover, Process(leftover.pid, starts[leftover.pid])))
        self._save()

    def update(self, facts: NodeFacts) -> None:
        """Drop the processes that are gone, and update the GPU memory that the others hold. If NVML
        does not answer, its last values stay."""
        held = leftovers.holdings(facts.gpus) if facts.nvml is not None else None
        self._left = [
            (left if held is None else leftovers.still(left, held), process)
            for left, process in self._left
            if self._is_there(left, process, held)
        ]
        self._save()

    def _save(self) -> None:
        record = self._record()
        if record == self._kept:
            return
        value = {"boot_id": self._boot_id, "left": record}

        def write() -> None:
            write_state(self._path, value, version=_VERSION)

        problem = self._write(write)
        if problem:
            log.error("list of job leftovers not written", why=problem)
        else:
            self._kept = record

    def _record(self) -> list[dict[str, Any]]:
        """For the file. Without the GPU memory that they hold, which changes often."""
        return [
            {**asdict(left), "gpus": (), "used_bytes": None, "start": process.start}
            for left, process in self._left
        ]

    def _is_there(
        self, left: LeftoverFacts, process: Process, held: leftovers.Holdings | None
    ) -> bool:
        if left.confirmed:
            return process.alive(self._procfs)
        # It may be in another pid namespace, so NVML's list decides.
        return held is None or left.pid in held


def _load(path: Path, boot_id: str) -> tuple[list[tuple[LeftoverFacts, Process]], str]:
    """(leftovers, problem). Processes of an earlier boot are gone."""
    value, problem = read_state(path, version=_VERSION)
    if value is None or value.get("boot_id") != boot_id:
        return [], problem or ""
    try:
        return [_entry(dict(item)) for item in value["left"]], ""
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return [], f"{path}: {type(error).__name__}: {error}; ignored"


def _entry(item: dict[str, Any]) -> tuple[LeftoverFacts, Process]:
    start = int(item.pop("start"))
    left = LeftoverFacts(**{**item, "gpus": tuple(item["gpus"])})
    return left, Process(int(left.pid), start)

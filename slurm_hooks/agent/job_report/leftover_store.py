"""The leftovers that are still there, looked at again with each pass."""

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
from slurm_hooks.agent.job_report.runs import Run
from slurm_hooks.facts import NodeFacts
from slurm_hooks.facts.jobs import LeftoverFacts
from slurm_hooks.node.process import Process

log = Log("agent")

_VERSION = 1


class LeftoverStore:
    """``facts`` is what ended jobs left here and is alive. Only files that take no lock are read.

    Kept on disk too: an agent that is restarted must not take a node for clean.
    """

    def __init__(self, procfs: Path, state: Path, boot_id: str, write: Bounded = at_once) -> None:
        self._write = write
        self._procfs = str(procfs)
        self._path, self._boot_id = state / "leftovers.json", boot_id
        self._left, problem = _load(self._path, boot_id)
        if problem:
            log.error("leftovers of jobs forgotten", why=problem)
        self._kept = self._record()

    @property
    def facts(self) -> tuple[LeftoverFacts, ...]:
        return tuple(left for left, _ in self._left)

    def add(self, run: Run, left: Iterable[Leftover]) -> None:
        """What a run left behind."""
        found = tuple(left)
        starts = {one.pid: one.start for one in found}
        for one in leftovers.still_there(run, found):
            self._left.append((one, Process(one.pid, starts[one.pid])))
        self._save()

    def look(self, facts: NodeFacts) -> None:
        """Those that are still there, with the memory that they hold now. Where NVML is silent,
        what it said last stands."""
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
        said = {"boot_id": self._boot_id, "left": record}

        def write() -> None:
            write_state(self._path, said, version=_VERSION)

        problem = self._write(write)
        if problem:
            log.error("leftovers of jobs not written down", why=problem)
        else:
            self._kept = record

    def _record(self) -> list[dict[str, Any]]:
        """Without the memory that they hold, which changes."""
        return [
            {**asdict(left), "gpus": (), "used_bytes": None, "start": process.start}
            for left, process in self._left
        ]

    def _is_there(
        self, left: LeftoverFacts, process: Process, held: leftovers.Holdings | None
    ) -> bool:
        if left.confirmed:
            return process.alive(self._procfs)
        # Of a process namespace that we may not see: NVML's word counts.
        return held is None or left.pid in held


def _load(path: Path, boot_id: str) -> tuple[list[tuple[LeftoverFacts, Process]], str]:
    """(what was there, problem). Another boot's processes are gone."""
    said, problem = read_state(path, version=_VERSION)
    if said is None or said.get("boot_id") != boot_id:
        return [], problem or ""
    try:
        return [_entry(dict(one)) for one in said["left"]], ""
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return [], f"{path}: {type(error).__name__}: {error}; going on without it"


def _entry(said: dict[str, Any]) -> tuple[LeftoverFacts, Process]:
    start = int(said.pop("start"))
    left = LeftoverFacts(**{**said, "gpus": tuple(said["gpus"])})
    return left, Process(int(left.pid), start)

"""The ledger on disk: what a restarted agent goes on from. Another boot's is worth nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from holdfast.adapters.statefile import read_state, write_state
from slurm_hooks.job_health import tally
from slurm_hooks.job_health.ledger import JobXid, Ledger, Run

VERSION = 1


def path_in(state: Path) -> Path:
    return state / "jobs.json"


def save(path: Path, ledger: Ledger, boot_id: str) -> None:
    """Raises OSError where the state folder cannot be written."""
    write_state(
        path,
        {"boot_id": boot_id, "runs": [_as_json(run) for run in ledger.runs.values()]},
        version=VERSION,
    )


def load(path: Path, boot_id: str) -> tuple[Ledger, str]:
    """(ledger, problem). Nothing there, or another boot's: an empty one, and no problem."""
    said, problem = read_state(path, version=VERSION)
    if said is None:
        return Ledger(), problem or ""
    if said.get("boot_id") != boot_id:
        return Ledger(), ""
    try:
        runs = [_run(one) for one in said["runs"]]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return Ledger(), f"{path}: {type(error).__name__}: {error}; going on without it"
    return Ledger(runs={run.key: run for run in runs}), ""


def _as_json(run: Run) -> dict[str, Any]:
    return {
        **{name: getattr(run, name) for name in _PLAIN},
        "gpus": None if run.gpus is None else sorted(run.gpus),
        "tallies": tally.as_json(run.tallies),
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


def _run(said: Mapping[str, Any]) -> Run:
    return Run(
        **{name: said[name] for name in _PLAIN},
        gpus=None if said["gpus"] is None else frozenset(map(int, said["gpus"])),
        tallies=tally.from_json(said["tallies"]),
        xids=tuple(JobXid(**found) for found in said["xids"]),
    )

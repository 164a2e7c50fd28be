"""The job files in the run folder: the hooks' notes, the reports, and a flag for the sh hook."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from holdfast.adapters.state_file import write_atomic
from slurm_hooks.agent.job_runs.hook_notes import folder

MAX_REPORTS = 256
"""Reports are kept for so many jobs, because /run is in memory."""
ALLOW_SKIP = "allow_skip"


def reports_in(run_dir: Path) -> Path:
    return run_dir / "reports"


def prepare(run_dir: Path, *, allow_skip: bool) -> None:
    """Create the folders and the flag that allows users to skip checks. Raises OSError."""
    for path in (folder(run_dir), reports_in(run_dir)):
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o755)
    flag = run_dir / ALLOW_SKIP
    if allow_skip:
        flag.touch()
    else:
        flag.unlink(missing_ok=True)


def write_report(run_dir: Path, report: Mapping[str, Any]) -> None:
    """Write ``reports/<job>.json``, readable for all users; remove the oldest reports. Raises
    OSError."""
    where = reports_in(run_dir)
    path = where / f"{report['job']}.json"
    new = not path.exists()
    write_atomic(path, json.dumps(report) + "\n", durable=False)
    if new:
        _prune(where)


def _prune(where: Path) -> None:
    found = [path for path in where.iterdir() if path.suffix == ".json"]
    if len(found) <= MAX_REPORTS:
        return
    aged = sorted(found, key=lambda path: path.stat().st_mtime_ns)
    remove(aged[: len(found) - MAX_REPORTS])


def remove(paths: Iterable[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)

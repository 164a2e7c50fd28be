"""``holdfast checkpoints DIR``: what would be resumed, and why others were rejected."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from slurm_hooks.job.checkpoints.candidate import Checkpoint
from slurm_hooks.job.checkpoints.find import all_judged

_EPILOG = """example:
  holdfast checkpoints /mnt/training/checkpoints
  holdfast checkpoints --json /mnt/training/checkpoints

Newest first. Exit status: 0 a valid checkpoint is there, 1 none is valid, 2 DIR is not there or
cannot be listed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the checkpoints of a folder. Keys of ``--json``: path, framework, step, valid,
    reason.
    """
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast checkpoints",
        description="Which checkpoints of a folder are whole, without torch.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "dir", metavar="DIR", type=Path, help="the folder that the job writes its checkpoints to"
    )
    parser.add_argument("--json", action="store_true", help="one JSON list, newest first")
    args = parser.parse_args(argv)
    try:
        found = all_judged(args.dir)
    except OSError as error:
        sys.stderr.write(f"holdfast checkpoints: {args.dir}: {error.strerror}; {_remedy(error)}\n")
        return 2
    sys.stdout.write(
        json.dumps([_record(one) for one in found]) + "\n" if args.json else _table(args.dir, found)
    )
    return 0 if any(one.valid for one in found) else 1


def _remedy(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "ask its owner for r-x"
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return "name the folder that the job saves to"
    return "see to its filesystem first"


def _record(one: Checkpoint) -> dict[str, object]:
    return {
        "path": str(one.path),
        "framework": one.framework,
        "step": one.step,
        "valid": one.valid,
        "reason": one.reason,
    }


def _table(folder: Path, found: list[Checkpoint]) -> str:
    if not found:
        return f"no checkpoints in {folder}\n"
    rows = [("CHECKPOINT", "STEP", "FRAMEWORK", "VALID")]
    resumed = next((one for one in found if one.valid), None)
    for one in found:
        verdict = (
            ("yes, resumed from here" if one is resumed else "yes")
            if one.valid
            else f"no: {one.reason}"
        )
        rows.append(
            (one.path.name, "-" if one.step is None else str(one.step), one.framework, verdict)
        )
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    ]
    return "\n".join(lines) + "\n"

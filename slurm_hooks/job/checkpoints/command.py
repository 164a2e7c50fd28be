"""``holdfast checkpoints DIR``: which checkpoint is resumed from, and why others are rejected."""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast.cli.console import complain, say, say_json, screen_width
from holdfast.text.tables import table
from slurm_hooks.job.checkpoints.candidate import Candidate, Checkpoint
from slurm_hooks.job.checkpoints.find import judge, newest_first, unjudged
from slurm_hooks.job.checkpoints.names import some
from slurm_hooks.job.checkpoints.survey import Survey, survey
from slurm_hooks.worker.child import Serve
from slurm_hooks.worker.worker import Answer, Worker, call

_ONE_S, _ALL_S = 20.0, 300.0
"""Time limits: for the listing and for a batch of checkpoints, and for all of them."""
_BATCH = 64
_MEMORY_BYTES = 4 << 30
"""Address space. A pickle of a few bytes can allocate more than the machine has."""

_EPILOG = """example:
  holdfast checkpoints /mnt/training/checkpoints
  holdfast checkpoints --json /mnt/training/checkpoints

Newest first.

exit status: 0 at least one checkpoint is valid, 1 none is valid, 2 DIR does not exist
or cannot be listed."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="holdfast checkpoints",
        description="List the checkpoints of a folder and check that they are complete. Needs no torch.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "dir", metavar="DIR", type=Path, help="folder that the job saves its checkpoints to"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list, newest first")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the checkpoints of a folder. Keys of ``--json``: path, framework, step, valid,
    reason.
    """
    args = parser().parse_args(argv)
    try:
        found, others = all_judged(args.dir)
    except OSError as error:
        complain(f"holdfast checkpoints: {args.dir}: {error.strerror}; {_remedy(error)}")
        return 2
    if args.json:
        say_json([_record(checkpoint) for checkpoint in found], indent=None)
    else:
        say(_page(args.dir, found, others))
    return 0 if any(checkpoint.valid for checkpoint in found) else 1


def all_judged(folder: Path) -> tuple[list[Checkpoint], tuple[str, ...]]:
    """Every checkpoint of ``folder``, newest first, and the names that belong to none. Raises OSError
    when it cannot be listed.

    A worker process reads the files, with a time limit and a memory limit, so no file can make this
    hang.
    """
    worker = Worker("checkpoints", _open)
    try:
        listed = call(worker, folder, deadline_s=_ONE_S)
        if not listed.complete:
            raise OSError(0, _why(listed))
        (seen,) = listed.items
        if isinstance(seen, OSError):
            raise seen
        found = newest_first(seen.candidates)
        return list(_judged(found, worker)), seen.unrecognised
    finally:
        worker.close()


def _judged(found: list[Candidate], worker: Worker) -> Iterator[Checkpoint]:
    """Many in one request: on a busy machine each round trip costs milliseconds."""
    until, at = time.monotonic() + _ALL_S, 0
    while at < len(found):
        left_s = until - time.monotonic()
        answer = Answer(error=f"no time left: the limit for all checkpoints is {_ALL_S:g} s")
        if left_s > 0:
            batch = found[at : at + _BATCH]
            answer = call(worker, batch, deadline_s=min(_ONE_S, left_s))
        yield from answer.items
        at += len(answer.items)
        if not answer.complete and at < len(found):
            yield unjudged(found[at], _why(answer))  # the one that the worker was at
            at += 1


def _why(answer: Answer) -> str:
    return f"no answer in {_ONE_S:g} s" if answer.hung else answer.error


def _open() -> Serve:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = _MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(hard, _MEMORY_BYTES)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    return _serve


def _serve(request: Any) -> Iterator[Survey | Checkpoint | OSError]:
    """Yields the survey of a folder, or the error of listing it; for candidates their checkpoints."""
    if isinstance(request, list):
        yield from map(judge, request)
        return
    try:
        yield survey(request)
    except OSError as error:
        yield error


def _remedy(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "its owner must grant r-x"
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return "give the folder that the job saves to"
    return "check its filesystem"


def _record(checkpoint: Checkpoint) -> dict[str, object]:
    return {
        "path": str(checkpoint.path),
        "framework": checkpoint.framework,
        "step": checkpoint.step,
        "valid": checkpoint.valid,
        "reason": checkpoint.reason,
    }


def _page(folder: Path, found: list[Checkpoint], others: tuple[str, ...]) -> str:
    if not found and others:
        return f"no checkpoint is recognised in {folder}; it holds {some(others)}"
    if not found:
        return f"no checkpoints in {folder}: it is empty"
    resumed = next((checkpoint for checkpoint in found if checkpoint.valid), None)
    rows = [("CHECKPOINT", "STEP", "FRAMEWORK", "VALID")]
    for checkpoint in found:
        yes = "yes, resumes from here" if checkpoint is resumed else "yes"
        step = "-" if checkpoint.step is None else str(checkpoint.step)
        valid = yes if checkpoint.valid else f"no: {checkpoint.reason}"
        rows.append((_name(checkpoint, folder), step, checkpoint.framework, valid))
    return table(rows, screen_width())


def _name(checkpoint: Checkpoint, folder: Path) -> str:
    """The path below ``folder``, so that checkpoints of several runs differ."""
    return (
        checkpoint.path.name
        if checkpoint.path == folder
        else str(checkpoint.path.relative_to(folder))
    )

"""The tracked on disk: what a restarted agent goes on from.

It lies there twice. A tracked that is lost would have to be won again from the kernel log, where old
faults stand beside those of now, and the node would leave service for what was settled long ago.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from holdfast.adapters.log import Log
from holdfast.adapters.state_file import put_aside, read_state, write_atomic, write_state
from holdfast.adapters.typed_json import typed
from slurm_hooks.tracking.node import TrackedState

log = Log("agent")

VERSION = 1


def path_in(state: Path) -> Path:
    return state / "agent.json"


def spare_of(path: Path) -> Path:
    """The second copy: the same, not the one before, which knows nothing of a person's last word."""
    return path.with_suffix(".spare.json")


def save(path: Path, tracked: TrackedState) -> None:
    """Raises OSError where the state folder cannot be written."""
    text = write_state(path, dataclasses.asdict(tracked), version=VERSION)
    write_atomic(spare_of(path), text, mode=0o600, durable=False)


def recall(path: Path) -> TrackedState:
    """What an earlier agent left: its tracked, the spare copy of it, or one that is ``lost``. A file
    that cannot be read is told in one line and put aside.
    """
    tracked, problem = load(path)
    if not problem:
        return tracked
    put_aside(path)
    spare, worse = load(spare_of(path))
    if spare.boot_id and not worse:
        log.warning("tracked read from its spare copy", why=problem)
        return spare
    log.error("tracked lost: the kernel log up to now is taken as known", why=problem)
    return TrackedState(lost=True)


def load(path: Path) -> tuple[TrackedState, str]:
    """(tracked, problem). A file that is missing or unreadable is an empty tracked, no error."""
    said, problem = read_state(path, version=VERSION)
    if said is not None:
        try:
            if "boot_id" not in said:
                raise ValueError("boot_id is missing")
            return typed(said, TrackedState), ""
        except ValueError as error:
            problem = f"{path}: {error}; going on without it"
    return TrackedState(), problem or ""

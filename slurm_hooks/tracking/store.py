"""The tracked state on disk, from which a restarted agent continues.

It is saved twice. Without it the agent would only have the kernel log, in which resolved faults
cannot be distinguished from current ones, and might drain the node for a fault that was repaired
long ago.
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
    """The second copy of the same state. Not an older one, which might lack a person's last resume."""
    return path.with_suffix(".spare.json")


def save(path: Path, tracked: TrackedState) -> None:
    """Raises OSError if the state folder cannot be written."""
    text = write_state(path, dataclasses.asdict(tracked), version=VERSION)
    write_atomic(spare_of(path), text, mode=0o600, durable=False)


def recall(path: Path) -> TrackedState:
    """The state that an earlier agent saved, or its backup, or a state that is ``lost``. A file
    that cannot be read is logged in one line and renamed.
    """
    tracked, problem = load(path)
    if not problem:
        return tracked
    put_aside(path)
    spare, worse = load(spare_of(path))
    if spare.boot_id and not worse:
        log.warning("tracked state read from backup", why=problem)
        return spare
    log.error("tracked state lost: the kernel log up to now is skipped", why=problem)
    return TrackedState(lost=True)


def load(path: Path) -> tuple[TrackedState, str]:
    """(state, problem). A file that is missing or unreadable gives an empty state."""
    value, problem = read_state(path, version=VERSION)
    if value is not None:
        try:
            if "boot_id" not in value:
                raise ValueError("boot_id is missing")
            return typed(value, TrackedState), ""
        except ValueError as error:
            problem = f"{path}: {error}; ignored"
    return TrackedState(), problem or ""

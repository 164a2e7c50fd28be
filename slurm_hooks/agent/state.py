"""The memory on disk: what a restarted agent goes on from."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

from holdfast.adapters.statefile import read_state, write_state
from holdfast.adapters.typed_json import typed
from slurm_hooks.agent.memory import Memory

VERSION = 1


def path_in(state: Path) -> Path:
    return state / "agent.json"


def save(path: Path, memory: Memory) -> None:
    """Raises OSError where the state folder cannot be written."""
    write_state(path, dataclasses.asdict(memory), version=VERSION)


def load(path: Path) -> tuple[Memory, str]:
    """(memory, problem). A file that is missing or unreadable is an empty memory, no error."""
    said, problem = read_state(path, version=VERSION)
    if said is not None:
        try:
            if "boot_id" not in said:
                raise ValueError("boot_id is missing")
            return typed(said, Memory), ""
        except ValueError as error:
            problem = f"{path}: {error}; going on without it"
    return Memory(), problem or ""


def put_aside(path: Path) -> None:
    """Keep a memory that could not be read for a person to look at; the next save takes its place."""
    with contextlib.suppress(OSError):
        path.replace(path.with_suffix(".unreadable"))

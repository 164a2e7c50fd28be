"""The marker: what the launcher tells its node's agent, ``/run/holdfast/jobs/<job>.json``.

The folder is the agent's (mode 1777), the file the job user's. It is a claim, believed only when
the file's owner is the job's user in Slurm; even then it can ask for nothing that this user could
not do alone.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import stat
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from holdfast.adapters.statefile import write_atomic

RUNNING, REQUEUE, FINISHED = "running", "requeue", "finished"
_STATES = (RUNNING, REQUEUE, FINISHED)
_MAX_BYTES = 65536
_MAX_FILES = 256
_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """``state``: the job is running, asked for a requeue, or ended for good.

    ``deaths`` counts how often in a row this job's launcher died; ``exclude`` names nodes that the
    next run avoids; ``at`` is in epoch seconds. ``owner`` is the file's uid and is not part of the
    file.
    """

    job: int
    restarts: int
    state: str
    at: float
    exclude: tuple[str, ...] = ()
    deaths: int = 0
    owner: int = -1


def folder(run_dir: Path) -> Path:
    return run_dir / "jobs"


def ended_folder(run_dir: Path) -> Path:
    """Where the epilog touches a file named after each job that ended here."""
    return run_dir / "ended"


def write(run_dir: Path, marker: Marker) -> bool:
    """Puts the marker in place by rename. False where no agent has made the folder, or may not."""
    target = folder(run_dir) / f"{marker.job}.json"
    facts: dict[str, Any] = asdict(marker)
    del facts["owner"]
    try:
        write_atomic(target, json.dumps(facts) + "\n", durable=False)
    except OSError:
        return False
    return True


def listed(folder: Path, suffix: str) -> dict[int, tuple[Path, int]]:
    """The files of jobs in a folder: job → (path, when it changed in ns). 256 at most, in no order.

    A folder is none: whoever may make files in ``jobs/`` may make one there that cannot be removed.
    """
    found: dict[int, tuple[Path, int]] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                stem = entry.name.removesuffix(suffix)
                named = entry.name.endswith(suffix) and stem.isascii() and stem.isdigit()
                if named and not entry.is_dir(follow_symlinks=False):
                    changed_ns = entry.stat(follow_symlinks=False).st_mtime_ns
                    found[int(stem)] = (Path(entry.path), changed_ns)
                if len(found) >= _MAX_FILES:
                    break
    except OSError:
        return found  # not there yet, or a file that went away meanwhile: next time
    return found


def uid_of(user: str) -> int | None:
    """The user's number on this node, or ``None`` for one that it does not know."""
    if user.isdigit():
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def read(path: Path) -> Marker | None:
    """The marker in ``path``, or ``None`` when it is none (root reads here what a user wrote)."""
    try:
        # O_NONBLOCK and O_NOFOLLOW: a pipe must not hold the agent, nor a link lead it elsewhere.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags)
    except OSError:
        return None
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _MAX_BYTES:
            return None
        return _parse(os.read(descriptor, _MAX_BYTES), path.stem, facts.st_uid)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _parse(data: bytes, name: str, owner: int) -> Marker | None:
    try:
        facts = json.loads(data)
        marker = Marker(
            job=int(facts["job"]),
            restarts=int(facts["restarts"]),
            state=str(facts["state"]),
            at=float(facts["at"]),
            exclude=_node_names(facts.get("exclude", [])),
            deaths=int(facts.get("deaths", 0)),
            owner=owner,
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return None
    return marker if marker.state in _STATES and str(marker.job) == name else None


def _node_names(value: Sequence[object]) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError("exclude is no list")
    return tuple(one for one in value if isinstance(one, str) and _NODE_NAME.fullmatch(one))

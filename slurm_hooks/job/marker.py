"""The marker: what a job's launcher tells its node's agent, and the agent keeps in ``jobs/``.

The launcher, which is the user's, sends it through ``sockets/<uid>.sock`` as one packet of JSON; the
agent answers ``taken`` or ``no: WHY`` and writes ``jobs/<job>.json``, in a folder of root's own. Who
the owner is the kernel says, and which jobs are his the prolog. It is still a claim: believed only
while Slurm names the same user, and even then it can ask for nothing that this user could not do
alone.
"""

from __future__ import annotations

import json
import os
import pwd
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from holdfast.adapters.state_file import write_atomic

RUNNING, REQUEUE, FINISHED = "running", "requeue", "finished"
_STATES = (RUNNING, REQUEUE, FINISHED)
MAX_BYTES = 4096
"""Of one packet, and of one file: what one page of /run holds."""
TAKEN = "taken"
_MAX_COUNT = 2**32 - 1
_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """``state``: the job is running, asked for a requeue, or ended for good.

    ``deaths`` counts how often in a row this job's launcher died; ``exclude`` names nodes that the
    next run avoids; ``at`` is in epoch seconds. ``owner`` is the uid that the kernel gave for the
    sender; -1 in what is sent.
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
    """Where the epilog touches a file named after each job with a marker that ended here."""
    return run_dir / "ended"


def socket_folder(run_dir: Path) -> Path:
    return run_dir / "sockets"


def socket_of(run_dir: Path, uid: int) -> Path:
    """Where the agent listens to this user, while a job of his is on the node."""
    return socket_folder(run_dir) / f"{uid}.sock"


def encoded(marker: Marker) -> bytes:
    """One packet. Of very many nodes to exclude only the first are named: they are drained as well."""
    facts = asdict(marker)
    exclude = list(marker.exclude)
    while True:
        data = json.dumps({**facts, "exclude": exclude}).encode()
        if len(data) < MAX_BYTES or not exclude:
            return data
        exclude.pop()


def decoded(data: bytes) -> Marker:
    """What ``encoded`` made, whoever made it. Raises ValueError for anything else."""
    if len(data) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES} bytes")
    try:
        facts = json.loads(data.decode())
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None
    if not isinstance(facts, dict):
        raise ValueError("no JSON object")
    state, exclude = facts.get("state"), facts.get("exclude", [])
    if state not in _STATES:
        raise ValueError("no such state")
    if not isinstance(exclude, list):
        raise ValueError("exclude is no list")
    return Marker(
        job=_count(facts, "job"),
        restarts=_count(facts, "restarts"),
        state=state,
        at=_seconds(facts.get("at")),
        exclude=tuple(one for one in exclude if isinstance(one, str) and _NODE_NAME.fullmatch(one)),
        deaths=_count({"deaths": 0, **facts}, "deaths"),
        owner=_owner(facts.get("owner", -1)),
    )


def _count(facts: dict[str, object], name: str) -> int:
    value = facts.get(name)
    if type(value) is not int or not 0 <= value <= _MAX_COUNT:
        raise ValueError(f"{name} is no count")
    return value


def _owner(value: object) -> int:
    if type(value) is not int or not -1 <= value <= _MAX_COUNT:
        raise ValueError("owner is no uid")
    return value


def _seconds(value: object) -> float:
    if type(value) not in (int, float) or not 0 <= value < 1e12:  # type: ignore[operator]
        raise ValueError("at is no time")
    return float(value)  # type: ignore[arg-type]


def write_plainly(path: Path, text: str) -> None:
    write_atomic(path, text, mode=0o600, durable=False)


def store(
    run_dir: Path, marker: Marker, write: Callable[[Path, str], None] = write_plainly
) -> None:
    """The agent's part: the marker in its place, by rename. Raises OSError."""
    write(folder(run_dir) / f"{marker.job}.json", encoded(marker).decode() + "\n")


def listed(folder: Path, suffix: str) -> dict[int, tuple[Path, int]]:
    """The files of jobs in a folder of root's: job → (path, when it changed in ns), in no order."""
    found: dict[int, tuple[Path, int]] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                stem = entry.name.removesuffix(suffix)
                named = entry.name.endswith(suffix) and stem.isascii() and stem.isdigit()
                if named and not entry.is_dir(follow_symlinks=False):
                    changed_ns = entry.stat(follow_symlinks=False).st_mtime_ns
                    found[int(stem)] = (Path(entry.path), changed_ns)
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
    """The marker in ``path``, or ``None`` when it is none. Only root writes there."""
    try:
        with path.open("rb") as stream:
            marker = decoded(stream.read(MAX_BYTES + 1))
    except (OSError, ValueError):
        return None
    return marker if str(marker.job) == path.stem else None

"""The marker: the state of a job, sent by its launcher to the node's agent and kept in ``jobs/``.

The launcher runs as the user. It sends the marker through ``sockets/<uid>.sock`` as one packet of
JSON; the agent answers ``taken`` or ``no: WHY`` and writes ``jobs/<job>.json`` to a folder that only
root can write. The kernel reports the sender's uid, and the prolog records which jobs that user has
on the node. The content stays untrusted: the agent acts on it only while Slurm names the same user,
and only in ways in which that user could act without Holdfast.
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
"""Of one packet and of one file: one page of memory."""
TAKEN = "taken"
_MAX_COUNT = 2**32 - 1
_MAX_JOURNAL_BYTES = 1024
_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """``state``: the job is running, requested a requeue, or ended for good.

    ``launchers_killed``: how often in a row this job's launcher was killed. ``exclude``: nodes that
    the next run avoids. ``release``: nodes that an earlier run avoided because of Holdfast. ``at``:
    epoch seconds. ``journal``: the path of the job's journal. ``replace_nodes``: other nodes
    may take the place of bad ones that the job names (``--nodelist``). ``leaving``: a node of it is
    bad, so it is about to be requeued. ``succeeded``: it ended for good and would not be run again.
    ``owner``: the sender's uid as the kernel reports it; -1 in a packet.
    """

    job: int
    restarts: int
    state: str
    at: float
    exclude: tuple[str, ...] = ()
    release: tuple[str, ...] = ()
    launchers_killed: int = 0
    journal: str = ""
    replace_nodes: bool = False
    leaving: bool = False
    succeeded: bool = False
    owner: int = -1


def folder(run_dir: Path) -> Path:
    return run_dir / "jobs"


def ended_folder(run_dir: Path) -> Path:
    """Where the epilog creates a file, named after the job, for each job with a marker that ended."""
    return run_dir / "ended"


def socket_folder(run_dir: Path) -> Path:
    return run_dir / "sockets"


def socket_of(run_dir: Path, uid: int) -> Path:
    """The socket of this user. It exists while a job of this user is on the node."""
    return socket_folder(run_dir) / f"{uid}.sock"


def encoded(marker: Marker) -> bytes:
    """One packet. A list of nodes that does not fit is cut: those nodes are drained as well, or are
    released with a later requeue."""
    facts = asdict(marker)
    exclude, release = list(marker.exclude), list(marker.release)
    while True:
        data = json.dumps({**facts, "exclude": exclude, "release": release}).encode()
        if len(data) < MAX_BYTES or not (exclude or release):
            return data
        # Nodes to avoid stay longer: a node too few in "release" only costs a choice.
        (release or exclude).pop()


def decoded(data: bytes) -> Marker:
    """The marker in a packet or file of any origin. Raises ValueError for anything else."""
    if len(data) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES} bytes")
    try:
        facts = json.loads(data.decode())
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None
    if not isinstance(facts, dict):
        raise ValueError("not a JSON object")
    state = facts.get("state")
    if state not in _STATES:
        raise ValueError("unknown state")
    return Marker(
        job=count(facts, "job"),
        restarts=count(facts, "restarts"),
        state=state,
        at=_seconds(facts.get("at")),
        exclude=_nodes(facts, "exclude"),
        release=_nodes(facts, "release"),
        launchers_killed=count({"launchers_killed": 0, **facts}, "launchers_killed"),
        journal=_path(facts.get("journal")),
        replace_nodes=facts.get("replace_nodes") is True,
        leaving=facts.get("leaving") is True,
        succeeded=facts.get("succeeded") is True,
        owner=_owner(facts.get("owner", -1)),
    )


def count(facts: dict[str, object], name: str) -> int:
    """A number of 32 bits. Raises ValueError for anything else."""
    value = facts.get(name)
    # Not isinstance: True is an int, and JSON has true.
    if type(value) is not int or not 0 <= value <= _MAX_COUNT:
        raise ValueError(f"{name} is not a count")
    return value


def _nodes(facts: dict[str, object], name: str) -> tuple[str, ...]:
    names = facts.get(name, [])
    if not isinstance(names, list):
        raise ValueError(f"{name} is not a list")
    return tuple(node for node in names if isinstance(node, str) and _NODE_NAME.fullmatch(node))


def _path(value: object) -> str:
    """An absolute path; empty for anything else, which changes nothing else in the marker."""
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
        return ""
    return value if len(value.encode(errors="surrogateescape")) <= _MAX_JOURNAL_BYTES else ""


def _owner(value: object) -> int:
    if type(value) is not int or not -1 <= value <= _MAX_COUNT:
        raise ValueError("owner is not a uid")
    return value


def _seconds(value: object) -> float:
    if type(value) not in (int, float) or not 0 <= value < 1e12:  # type: ignore[operator]
        raise ValueError("at is not a time")
    return float(value)  # type: ignore[arg-type]


def write_plainly(path: Path, text: str) -> None:
    write_atomic(path, text, mode=0o600, durable=False)


def store(
    run_dir: Path, marker: Marker, write: Callable[[Path, str], None] = write_plainly
) -> None:
    """The agent's part: writes the marker by rename. Raises OSError."""
    write(folder(run_dir) / f"{marker.job}.json", encoded(marker).decode() + "\n")


def listed(folder: Path, suffix: str) -> dict[int, tuple[Path, int]]:
    """The files of jobs in a folder that root owns: job → (path, time of change in ns), unordered."""
    found: dict[int, tuple[Path, int]] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                stem = entry.name.removesuffix(suffix)
                # isdigit() alone accepts digits of other scripts, and superscripts, which int()
                # does not take.
                named = entry.name.endswith(suffix) and stem.isascii() and stem.isdigit()
                if named and not entry.is_dir(follow_symlinks=False):
                    changed_ns = entry.stat(follow_symlinks=False).st_mtime_ns
                    found[int(stem)] = (Path(entry.path), changed_ns)
    except OSError:
        return found  # not there yet, or a file disappeared meanwhile: next time
    return found


def uid_of(user: str) -> int | None:
    """The user's uid on this node, or ``None`` for an unknown user."""
    if user.isdigit():
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def read(path: Path) -> Marker | None:
    """The marker in ``path``, or ``None`` if the file holds none. Only root writes there."""
    try:
        with path.open("rb") as stream:
            marker = decoded(stream.read(MAX_BYTES + 1))
    except (OSError, ValueError):
        return None
    return marker if str(marker.job) == path.stem else None

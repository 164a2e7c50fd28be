"""The files that ``holdfast explain`` reads: this node's verdict and report, and a job's journal.

Other parts of Holdfast write them; only their documented format is used here, and no reader raises. Users
can write to the journal, so the type of every value in it is checked.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.adapters import safe_file
from holdfast.adapters.typed_json import typed
from holdfast.drain_status import AgentReport
from holdfast.policy.ownership import DrainRecord
from holdfast.version import WIRE
from holdfast.vocabulary import Status

_STATUSES = frozenset(status.value for status in Status)
_BOOT_ID = Path("sys/kernel/random/boot_id")
_MAX_VERDICT_BYTES = 4 << 20
_MAX_JOURNAL_BYTES = 32 << 20
_FOLDER = ".holdfast"
_MAX_FOLDERS = 2000
"""Folders searched below a job's working folder, which may have any number."""
_LATEST_S = 32e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """A job's journal as one mapping for each attempt, oldest first. ``problem``: why the file cannot be
    read."""

    path: Path
    attempts: Sequence[Mapping[str, Any]]
    problem: str = ""


def local_verdict(run: Path, procfs: Path, name: str | None) -> dict[str, Any] | None:
    """This node's verdict file, if this is the node ``name`` (None: any name). ``expired``: it no longer
    counts, for example after a reboot. The rules are those of ``slurm_hooks.node.verdict_file``."""
    try:
        data = safe_file.read_bytes(run / "verdict", max_bytes=_MAX_VERDICT_BYTES)
    except OSError:
        return None
    text = data.decode("utf-8", "replace")
    first, _, rest = text.partition("\n")
    words = first.split()
    try:
        detail = json.loads(rest)
    except (ValueError, RecursionError):
        detail = None
    if len(words) != 4 or words[0] not in _STATUSES:
        return None
    if not isinstance(detail, dict) or detail.get("status") != words[0]:
        return None
    if name is not None and detail.get("node", name) != name:
        return None
    stale = _why_stale(words, procfs)
    findings = detail.get("findings") or ()
    return {
        "status": words[0] if not stale else "blind",
        "expired": bool(stale),
        "expired_reason": stale,
        "findings": [finding for finding in findings if isinstance(finding, dict)],
        "blind": detail.get("blind") or [],
        "decision": _table(detail.get("decision")),
        "drained": detail.get("drained") is True,
        "facts": _table(detail.get("facts")),
        "at": detail.get("at"),
    }


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def agent_report(verdict: Mapping[str, Any] | None) -> AgentReport | None:
    """What the node's agent reports there about its own drains; ``None``: nothing, or unreadable (an older
    agent reports nothing).
    """
    if verdict is None or "made" not in verdict["decision"]:
        return None
    value = verdict["decision"]["made"]
    try:
        made = typed(value, DrainRecord) if value is not None else None
        at = typed(verdict["at"], float)
    except ValueError:
        return None
    left = [
        finding["left_s"]
        for finding in verdict["findings"]
        if made
        and finding.get("code") == made.code
        and isinstance(finding.get("left_s"), (int, float))
    ]
    until = at + max(left) if left else None
    return AgentReport(made=made, at=at, fresh=not verdict["expired"], until=until)


def _why_stale(words: Sequence[str], procfs: Path) -> str:
    try:
        boot_id = (procfs / _BOOT_ID).read_text().strip()
        uptime_s = float((procfs / "uptime").read_text().split()[0])
        expires_s = int(words[1])
    except (OSError, ValueError, IndexError):
        return "its age is unknown"
    if words[3] != WIRE:
        return f"of another format ({words[3][:40]})"
    if words[2] != boot_id:
        return "written before the last boot"
    if uptime_s > expires_s + 1:
        return f"expired {uptime_s - expires_s:.0f} s ago: is the agent running?"
    return ""


def local_report(run: Path, job_id: int) -> dict[str, Any] | None:
    """This node's own report of the job's last run here, when it had one."""
    try:
        path = run / "reports" / f"{job_id}.json"
        found = json.loads(safe_file.read_bytes(path, max_bytes=_MAX_VERDICT_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def local_journal(run: Path, job_id: int) -> str:
    """The path of the journal that the job's launcher sent to this node's agent; empty: none that this
    user may read."""
    try:
        path = run / "jobs" / f"{job_id}.json"
        marker = json.loads(safe_file.read_bytes(path, max_bytes=_MAX_VERDICT_BYTES))
    except (OSError, ValueError, RecursionError):
        return ""
    return str(marker.get("journal") or "") if isinstance(marker, dict) else ""


def read_journal(
    job_id: int, checkpoints: Path | None, work_dir: Path | None, named: Sequence[str] = ()
) -> Journal | None:
    """The job's journal; ``None``: not found. It is looked for below ``checkpoints``, at the paths
    ``named`` by Slurm or the agent, and below the working folder.
    """
    name = f"job-{job_id}.jsonl"
    given = [checkpoints / _FOLDER / name] if checkpoints is not None else []
    # The job's user chose the path: it is read only if it can be the path of a journal.
    elsewhere = [Path(text) for text in named if _is_journal(text, name)]
    below = (folder / _FOLDER / name for folder in _places(work_dir))
    unread = None
    for path in itertools.chain(given, elsewhere, below):
        found = _read(path)
        if found is not None and not found.problem:
            return found
        unread = unread or found
    if unread is None and elsewhere:
        return Journal(path=elsewhere[0], attempts=(), problem="no such file on this host")
    return unread


def _is_journal(path: str, name: str) -> bool:
    return path.startswith("/") and path.endswith(f"/{_FOLDER}/{name}")


def _read(path: Path) -> Journal | None:
    """The journal at ``path``; ``None``: there is no such file."""
    try:
        data = safe_file.read_bytes(path, max_bytes=_MAX_JOURNAL_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return Journal(path=path, attempts=(), problem=error.strerror or str(error))
    return Journal(path=path, attempts=fold(_events(data.decode("utf-8", "replace"))))


def _places(work_dir: Path | None) -> Iterator[Path]:
    """Folders that may contain the journal's: the working folder, and those one or two levels below
    it."""
    level, left = [work_dir] if work_dir is not None else [], _MAX_FOLDERS
    for _ in range(3):
        yield from level
        below: list[Path] = []
        for folder in level:
            found, left = _folders_in(folder, left)
            below += found
        level = below


def _folders_in(folder: Path, left: int) -> tuple[list[Path], int]:
    """The folders in a folder, sorted, and how many more may be searched. A symbolic link is checked when
    its target is opened."""
    found: list[Path] = []
    try:
        for entry in safe_file.scan(folder, most=50 * _MAX_FOLDERS):
            if len(found) >= left:
                break
            if entry.is_dir(follow_symlinks=os.geteuid() != 0) or entry.is_symlink():
                found.append(folder / entry.name)
    except OSError:
        pass  # the folders found until then are searched
    return sorted(found), left - len(found)


def _events(text: str) -> Iterator[Mapping[str, Any]]:
    for line in text.split("\n"):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue  # a line that a crash cut short
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            yield event


def fold(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The events as one mapping for each attempt, without those of an earlier job of the same number.

    Slurm reuses numbers: the restart count then falls, or stays while the start time changes. Pure.
    """
    attempts: list[dict[str, Any]] = []
    before: tuple[int, float | None] = (0, None)
    for event in events:
        kind = event["event"]
        if kind == "attempt":
            run = (_number(event.get("restarts")) or 0, _moment(event.get("job_start")))
            started_again = None not in (run[1], before[1]) and run[1] != before[1]
            if run[0] < before[0] or (run[0] == before[0] and started_again):
                attempts = []
            before = run
            attempts.append(_attempt(event))
        elif attempts:
            _add(attempts[-1], kind, event)
    return attempts


def _attempt(event: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "attempt": _number(event.get("attempt")),
        "restarts": _number(event.get("restarts")),
        "started_at": _moment(event.get("t")),
        "nodes": _text(event.get("nodes")) or "",
        "resumed_from": None,
        "resumed_step": None,
        "rejected": 0,
        "exit_code": None,
        "ended_why": None,
        "job_state": None,
        "decision": None,
        "why": None,
        "cause": None,
        "faults": [],
        "slow": None,
    }


def _add(attempt: dict[str, Any], kind: str, event: Mapping[str, Any]) -> None:
    if kind == "checkpoint":
        chosen = _table(event.get("chosen"))
        attempt["resumed_from"] = _text(chosen.get("path"))
        attempt["resumed_step"] = _number(chosen.get("step"))
        attempt["rejected"] = len(_items(event.get("rejected")))
    elif kind == "step_end":
        attempt["exit_code"] = _number(event.get("exit_code"))
        attempt["ended_why"] = _text(event.get("how"))
    elif kind == "evidence":
        attempt["cause"] = _text(event.get("cause_text")) or _text(event.get("cause"))
        faults = _items(event.get("faults"))
        attempt["faults"] = [fault for fault in faults if isinstance(fault, dict)]
    elif kind == "decision":
        attempt["decision"], attempt["why"] = _text(event.get("action")), _text(event.get("why"))
    elif kind == "slow":
        attempt["slow"] = _text(event.get("why"))
    elif kind == "finish":
        attempt["exit_code"] = _number(event.get("exit_code"))
        attempt["decision"], attempt["why"] = "finish", _text(event.get("why")) or attempt["why"]
        attempt["job_state"] = _text(event.get("job_state"))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: Any) -> int | None:
    return value if type(value) is int and abs(value) < 1 << 63 else None


def _moment(value: Any) -> float | None:
    """A plausible time in epoch seconds."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if number and 0 <= value < _LATEST_S else None


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()

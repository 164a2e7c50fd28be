"""The files that ``holdfast explain`` reads: this node's verdict and report, and a job's journal.

Other parts of Holdfast write them; only their documented format is used here, and no reader raises. Users
can write to the journal, so the type of every value in it is checked.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.adapters import safe_file
from holdfast.adapters.typed_json import typed
from holdfast.drain_status import AgentReport
from holdfast.policy.ownership import DrainRecord
from holdfast.records import job_journal, verdict_file
from holdfast.records.job_journal import FOLDER, Event
from holdfast.records.verdict_file import Published
from holdfast.vocabulary import Status

_BOOT_ID = Path("sys/kernel/random/boot_id")
_MAX_REPORT_BYTES = 4 << 20
_MAX_JOURNAL_BYTES = 32 << 20
_MAX_FOLDERS = 2000
"""Folders searched below a job's working folder, which may have any number."""
_LATEST_S = 32e9


@dataclass(frozen=True, slots=True, kw_only=True)
class JobJournal:
    """A job's journal as one mapping for each attempt, oldest first. ``problem``: why the file cannot be
    read."""

    path: Path
    attempts: Sequence[Mapping[str, Any]]
    problem: str = ""


def local_verdict(run: Path, procfs: Path, name: str | None) -> dict[str, Any] | None:
    """This node's verdict file, if this is the node ``name`` (None: any name). ``expired``: it no longer
    counts, for example after a reboot."""
    published = _published(verdict_file.path_in(run), procfs)
    detail = published.detail
    if not detail or (name is not None and detail.get("node", name) != name):
        return None
    return {
        "status": published.status.value,
        "expired": not published.fresh,
        "expired_reason": published.why,
        "findings": published.findings,
        "blind": published.blind,
        "decision": _table(detail.get("decision")),
        "drained": published.drained,
        "facts": _table(detail.get("facts")),
        "at": detail.get("at"),
    }


def _published(path: Path, procfs: Path) -> Published:
    try:
        boot_id = (procfs / _BOOT_ID).read_text().strip()
        uptime_s = float((procfs / "uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        found = verdict_file.read(path, boot_id="", uptime_s=0.0)
        return replace(found, status=Status.BLIND, fresh=False, why="its age is unknown")
    return verdict_file.read(path, boot_id=boot_id, uptime_s=uptime_s)


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


def local_report(run: Path, job_id: int) -> dict[str, Any] | None:
    """This node's own report of the job's last run here, when it had one."""
    try:
        path = run / "reports" / f"{job_id}.json"
        found = json.loads(safe_file.read_bytes(path, max_bytes=_MAX_REPORT_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def local_journal(run: Path, job_id: int) -> str:
    """The path of the journal that the job's launcher sent to this node's agent; empty: none that this
    user may read."""
    try:
        path = run / "jobs" / f"{job_id}.json"
        marker = json.loads(safe_file.read_bytes(path, max_bytes=_MAX_REPORT_BYTES))
    except (OSError, ValueError, RecursionError):
        return ""
    return str(marker.get("journal") or "") if isinstance(marker, dict) else ""


def read_journal(
    job_id: int, checkpoints: Path | None, work_dir: Path | None, named: Sequence[str] = ()
) -> JobJournal | None:
    """The job's journal; ``None``: not found. It is looked for below ``checkpoints``, at the paths
    ``named`` by Slurm or the agent, and below the working folder.
    """
    name = job_journal.file_name(job_id)
    given = [checkpoints / FOLDER / name] if checkpoints is not None else []
    # The job's user chose the path: it is read only if it can be the path of a journal.
    elsewhere = [Path(text) for text in named if _is_journal(text, name)]
    below = (folder / FOLDER / name for folder in _places(work_dir))
    unread = None
    for path in itertools.chain(given, elsewhere, below):
        found = _read(path)
        if found is not None and not found.problem:
            return found
        unread = unread or found
    if unread is None and elsewhere:
        return JobJournal(path=elsewhere[0], attempts=(), problem="no such file on this host")
    return unread


def _is_journal(path: str, name: str) -> bool:
    return path.startswith("/") and path.endswith(f"/{FOLDER}/{name}")


def _read(path: Path) -> JobJournal | None:
    """The journal at ``path``; ``None``: there is no such file."""
    try:
        return JobJournal(
            path=path, attempts=fold(job_journal.read(path, max_bytes=_MAX_JOURNAL_BYTES))
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return JobJournal(path=path, attempts=(), problem=error.strerror or str(error))


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


def fold(events: Sequence[Event]) -> list[dict[str, Any]]:
    """The last job's events as one mapping for each attempt. Pure."""
    folded = []
    for first, *others in job_journal.attempts(job_journal.of_last_job(events)):
        attempt = _attempt(first)
        for event in others:
            _add(attempt, event["event"], event)
        folded.append(attempt)
    return folded


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

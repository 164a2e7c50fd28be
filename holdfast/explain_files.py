"""What ``holdfast explain`` reads beside Slurm: this node's verdict file and a job's journal.

Both are other parts' files; only their documented wire format is used here, and neither raises.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.adapters.typed_json import typed
from holdfast.owner import Word
from holdfast.policy.ownership import DrainRecord

_BOOT_ID = Path("sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """A job's journal, folded to one mapping for each attempt, oldest first."""

    path: Path
    attempts: Sequence[Mapping[str, Any]]


def local_verdict(run: Path, procfs: Path, name: str | None) -> dict[str, Any] | None:
    """This node's verdict file, when this is the node ``name`` (None: whatever it is called).
    ``fresh`` tells whether it may be believed."""
    try:
        text = (run / "verdict").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    first, _, rest = text.partition("\n")
    words = first.split()
    try:
        detail = json.loads(rest)
    except (ValueError, RecursionError):
        detail = None
    if len(words) < 4 or not isinstance(detail, dict):
        return None
    if name is not None and detail.get("node", name) != name:
        return None
    stale = _why_stale(words, procfs)
    return {
        "status": words[0] if not stale else "blind",
        "fresh": not stale,
        "why_not": stale,
        "findings": [one for one in detail.get("findings") or () if isinstance(one, dict)],
        "blind": detail.get("blind") or [],
        "decision": _table(detail.get("decision")),
        "drained": detail.get("drained") is True,
        "facts": _table(detail.get("facts")),
        "at": detail.get("at"),
    }


def _table(said: Any) -> dict[str, Any]:
    return said if isinstance(said, dict) else {}


def agents_word(verdict: Mapping[str, Any] | None) -> Word | None:
    """What the node's agent says there of its own drains; ``None``: nothing, or not to be read (an
    older agent says nothing).
    """
    if verdict is None or "made" not in verdict["decision"]:
        return None
    said = verdict["decision"]["made"]
    try:
        made = typed(said, DrainRecord) if said is not None else None
        at = typed(verdict["at"], float)
    except ValueError:
        return None
    left = [
        found["left_s"]
        for found in verdict["findings"]
        if made and found.get("code") == made.code and isinstance(found.get("left_s"), (int, float))
    ]
    until = at + max(left) if left else None
    return Word(made=made, at=at, fresh=verdict["fresh"], until=until)


def _why_stale(words: Sequence[str], procfs: Path) -> str:
    try:
        boot_id = (procfs / _BOOT_ID).read_text().strip()
        uptime_s = float((procfs / "uptime").read_text().split()[0])
        expires_s = int(words[1])
    except (OSError, ValueError, IndexError):
        return "its age cannot be told"
    if words[2] != boot_id:
        return "written before the last boot"
    if uptime_s > expires_s + 1:
        return f"expired {uptime_s - expires_s:.0f} s ago: is the agent alive?"
    return ""


def local_report(run: Path, job_id: int) -> dict[str, Any] | None:
    """This node's own report of the job's last run here, when it had one."""
    try:
        found = json.loads((run / "reports" / f"{job_id}.json").read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def read_journal(job_id: int, checkpoints: Path | None, work_dir: Path | None) -> Journal | None:
    """The job's journal below ``checkpoints``, else near its working folder; ``None``: not found."""
    name = f"job-{job_id}.jsonl"
    for path in _places(checkpoints, work_dir, name):
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        return Journal(path=path, attempts=fold(_events(lines)))
    return None


def _places(checkpoints: Path | None, work_dir: Path | None, name: str) -> Iterator[Path]:
    if checkpoints is not None:
        yield checkpoints / ".holdfast" / name
    if work_dir is None:
        return
    for pattern in (f".holdfast/{name}", f"*/.holdfast/{name}", f"*/*/.holdfast/{name}"):
        try:
            yield from sorted(work_dir.glob(pattern))
        except OSError:
            continue


def _events(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    for line in lines:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue  # a line that a crash cut short
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            yield event


def fold(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One mapping for each attempt. Pure."""
    attempts: list[dict[str, Any]] = []
    for event in events:
        kind = event["event"]
        if kind == "attempt":
            attempts.append(_attempt(event))
        elif attempts:
            _add(attempts[-1], kind, event)
    return attempts


def _attempt(event: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "attempt": event.get("attempt"),
        "restarts": event.get("restarts"),
        "started_at": event.get("t"),
        "nodes": str(event.get("nodes") or ""),
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
    }


def _add(attempt: dict[str, Any], kind: str, event: Mapping[str, Any]) -> None:
    if kind == "checkpoint":
        chosen = event.get("chosen") or {}
        attempt["resumed_from"], attempt["resumed_step"] = chosen.get("path"), chosen.get("step")
        attempt["rejected"] = len(event.get("rejected") or ())
    elif kind == "step_end":
        attempt["exit_code"] = event.get("exit_code")
        attempt["ended_why"] = event.get("ended_why") or event.get("first_death") or None
    elif kind == "evidence":
        attempt["cause"] = event.get("cause_text") or event.get("cause") or None
        attempt["faults"] = [one for one in event.get("faults") or () if isinstance(one, dict)]
    elif kind == "decision":
        attempt["decision"], attempt["why"] = event.get("action"), event.get("why")
    elif kind == "finish":
        attempt["exit_code"] = event.get("exit_code")
        attempt["decision"], attempt["why"] = "finish", event.get("why") or attempt["why"]
        attempt["job_state"] = event.get("job_state")

"""What this agent did to its node, on disk: the ownership proof that an undo needs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from holdfast.adapters.statefile import forget, read_state, write_state
from holdfast.policy.ownership import DrainRecord
from holdfast.vocabulary import Action

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """Our drain, and the ``subject`` of its finding (a GPU's UUID tells whether it was
    replaced).
    """

    record: DrainRecord
    subject: str = ""

    def demanding(self, boot_id: str, uuids: frozenset[str]) -> DrainRecord:
        """The record, with a replacement that happened taken as the reboot that came with it.

        On a machine of one's own a new GPU is the replacement: other UUIDs answer, the one at
        fault does not, and nobody changes a GPU without switching the machine off.
        """
        gone = self.subject.startswith("GPU-") and bool(uuids) and self.subject not in uuids
        if self.record.action is Action.REPLACE and gone and boot_id != self.record.boot_id:
            return replace(self.record, action=Action.REBOOT)
        return self.record


def path_in(state: Path) -> Path:
    return state / "drain.json"


def load(path: Path) -> tuple[Drained | None, str]:
    """(record, problem). Never raises: without a record nothing is ever undone."""
    said, problem = read_state(path, version=VERSION)
    if said is None:
        return None, problem or ""
    try:
        return _read(said), ""
    except (ValueError, TypeError, KeyError) as error:
        return None, f"{path}: {type(error).__name__}: {error}; going on without it"


def save(path: Path, drained: Drained | None) -> None:
    """Raises OSError."""
    if drained is None:
        forget(path)
        return
    facts = asdict(drained.record)
    facts["action"] = drained.record.action.value
    for name in ("at", "written_at"):
        facts[name] = facts[name].timestamp() if facts[name] else None
    write_state(path, {"record": facts, "subject": drained.subject}, version=VERSION)


def _read(said: dict[str, Any]) -> Drained:
    facts = dict(said["record"])
    written_at = _utc(facts.pop("written_at"))
    if written_at is None:
        raise ValueError("written_at is missing")
    record = DrainRecord(
        action=Action(facts.pop("action")),
        at=_utc(facts.pop("at")),
        written_at=written_at,
        **facts,
    )
    return Drained(record=record, subject=str(said["subject"]))


def _utc(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)

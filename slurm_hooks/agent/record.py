"""What this agent did to its node, on disk: the ownership proof that an undo needs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from holdfast.adapters.statefile import forget, read_state, sync_folder, write_state
from holdfast.adapters.typed_json import typed
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

    def demanding(self, uuids: frozenset[str], expected_gpus: int) -> DrainRecord:
        """The record, asking for time only once the GPU that had to be replaced has been.

        On a machine of one's own another GPU is the replacement: all answer, the one at fault is
        not among them (nobody swaps a GPU without switching the machine off).
        """
        complete = len(uuids) >= expected_gpus > 0
        gone = self.subject.startswith("GPU-") and self.subject not in uuids
        if self.record.action is Action.REPLACE and complete and gone:
            return replace(self.record, action=Action.WAIT)
        return self.record


def reopened(drained: Drained, now: datetime) -> Drained:
    """The record of a drain that ended without its agent and is to be set again, at a time of its own."""
    return replace(drained, record=replace(drained.record, at=None, written_at=now))


def path_in(state: Path) -> Path:
    return state / "drain.json"


def load_last(path: Path) -> Drained | None:
    """The record of the drain that was ended last."""
    return load(_last(path))[0]


def end(path: Path) -> None:
    """Our drain is over: its record is put aside, in case slurmctld comes back with that drain. Raises
    OSError. A rename works on a full disk too.
    """
    if path.exists():
        path.replace(_last(path))
        sync_folder(path.parent)


def _last(path: Path) -> Path:
    return path.with_suffix(".last.json")


def load(path: Path) -> tuple[Drained | None, str]:
    """(record, problem). Never raises: without a record nothing is ever undone."""
    said, problem = read_state(path, version=VERSION)
    if said is None:
        return None, problem or ""
    try:
        return typed(said, Drained), ""
    except ValueError as error:
        return None, f"{path}: {error}; going on without it"


def save(path: Path, drained: Drained | None) -> None:
    """Raises OSError."""
    if drained is None:
        forget(path)
        return
    said = {"record": plain(drained.record), "subject": drained.subject}
    write_state(path, said, version=VERSION)


def plain(record: DrainRecord) -> dict[str, Any]:
    """For JSON, times in epoch seconds; ``typed`` reads it back."""
    facts = asdict(record)
    facts["action"] = record.action.value
    for name in ("at", "written_at", "slurmctld_at"):
        facts[name] = facts[name].timestamp() if facts[name] else None
    return facts

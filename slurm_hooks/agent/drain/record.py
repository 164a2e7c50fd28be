"""The agent's records, kept over restarts: its drain, which it must prove to own before it
undrains, and the last return, which accounting still has to confirm (decision 025).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from holdfast.adapters.durable_file import Bounded, DurableFile, at_once
from holdfast.adapters.state_file import forget, read_state, write_state
from holdfast.adapters.typed_json import typed
from holdfast.config.schema import PathsConfig
from holdfast.policy.ownership import DrainRecord, Undrained
from holdfast.slurm.client import SlurmNode
from holdfast.vocabulary import Action

VERSION = 1
ENDED_KEPT = 4
"""Records of ended drains that are kept: as many as fit into the space reserved for the file."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """A drain by Holdfast, and the ``subject`` of its finding: a GPU's UUID shows whether that GPU
    was replaced.
    """

    record: DrainRecord
    subject: str = ""

    def demanding(self, uuids: frozenset[str], expected_gpus: int) -> DrainRecord:
        """The record; once the GPU that had to be replaced was replaced, it requires only waiting.

        The GPU counts as replaced when all expected GPUs answer and the faulty one is not among
        them: nobody exchanges a GPU while the machine runs.
        """
        complete = len(uuids) >= expected_gpus > 0
        gone = self.subject.startswith("GPU-") and self.subject not in uuids
        if self.record.action is Action.REPLACE and complete and gone:
            return replace(self.record, action=Action.WAIT)
        return self.record


def reopened(drained: Drained, now: datetime) -> Drained:
    """The record for setting a drain again that the agent did not end. The new drain gets its own
    time."""
    return replace(drained, record=replace(drained.record, at=None, written_at=now))


def confirmed(drained: Drained, node: SlurmNode) -> Drained:
    """The record with user, time and instance as slurmctld reports them after the drain."""
    record = replace(
        drained.record,
        at=node.reason_at,
        actor=node.reason_user,
        instance_id=node.instance_id or drained.record.instance_id,
    )
    return replace(drained, record=record)


def path_in(state: Path) -> Path:
    return state / "drain.json"


def load(path: Path) -> tuple[Drained | None, str]:
    """(record, problem). Never raises. Without a record the agent undrains nothing."""
    value, problem = read_state(path, version=VERSION)
    return _typed(value, Drained, problem, path)


def save(path: Path, drained: Drained | None) -> None:
    """Raises OSError."""
    if drained is None:
        forget(path)
        return
    write_state(path, _as_json(drained), version=VERSION)


def _as_json(drained: Drained) -> dict[str, Any]:
    return {"record": plain(drained.record), "subject": drained.subject}


class Records:
    """The drain record and the last return, in ``paths.state``; in ``paths.run`` while the disk
    cannot be written. Never raises: a full or broken disk does not stop a drain (rule 12).
    """

    def __init__(self, paths: PathsConfig, bounded: Bounded = at_once) -> None:
        self._drain = DurableFile(path_in(paths.state), path_in(paths.run), version=VERSION)
        self._undrained = DurableFile(
            paths.state / "return.json", paths.run / "return.json", version=VERSION
        )
        self._last = DurableFile(
            paths.state / "drain.last.json", paths.run / "drain.last.json", version=VERSION
        )
        self._bounded = bounded
        self.problem = ""
        """Why the newest records are not on disk. Empty if they are."""

    @property
    def _files(self) -> tuple[DurableFile, ...]:
        return (self._drain, self._undrained, self._last)

    @property
    def in_memory(self) -> Path:
        """The drain record's copy in ``paths.run``, where a hook that drains the node leaves it."""
        return self._drain.memory

    @property
    def unwritten(self) -> bool:
        return any(file.unwritten for file in self._files)

    def set_aside(self) -> None:
        """Reserve the disk space that later writes need. Raises OSError."""
        for file in self._files:
            file.set_aside()

    def load(self) -> tuple[Drained | None, str]:
        """(record, problem). Without a record the agent undrains nothing."""
        value, problem = self._drain.load()
        return _typed(value, Drained, problem, self._drain.disk)

    def save(self, drained: Drained | None) -> None:
        value = _as_json(drained) if drained is not None else None
        self.problem = self._drain.save(value, self._bounded)

    def hand_over(self, drained: Drained | None) -> None:
        """As ``save``; the copy in ``paths.run`` stays, so that a running agent sees the change
        there."""
        self.save(drained)
        self._drain.hand_over(_as_json(drained) if drained is not None else None)

    def load_ended(self) -> tuple[Drained, ...]:
        """The records of the last drains that the agent ended or replaced, the newest last."""
        value, problem = self._last.load()
        rows = value.get("drains") if value else None
        found = [
            _typed(row, Drained, problem, self._last.disk)[0]
            for row in (rows if isinstance(rows, list) else [])
            if isinstance(row, dict)
        ]
        return tuple(drained for drained in found if drained is not None)

    def save_ended(self, drains: Sequence[Drained]) -> None:
        value = {"drains": [_as_json(drained) for drained in drains]}
        self.problem = self._last.save(value, self._bounded)

    def load_return(self) -> tuple[Undrained | None, str]:
        value, problem = self._undrained.load()
        return _typed(value, Undrained, problem, self._undrained.disk)

    def save_return(self, undrained: Undrained | None) -> None:
        value = seconds(asdict(undrained)) if undrained is not None else None
        self.problem = self._undrained.save(value, self._bounded)

    def settle(self) -> None:
        """Write to disk what is only in ``paths.run``."""
        problems = [file.settle(self._bounded) for file in self._files]
        self.problem = next((problem for problem in problems if problem), "")


def _typed(
    value: dict[str, Any] | None, kind: type[T], problem: str | None, path: Path
) -> tuple[T | None, str]:
    if value is None:
        return None, problem or ""
    try:
        return typed(value, kind), problem or ""
    except ValueError as error:
        return None, f"{path}: {error}; ignored"


def seconds(facts: dict[str, Any]) -> dict[str, Any]:
    """The same values with times in epoch seconds, for JSON."""
    return {
        name: value.timestamp() if isinstance(value, datetime) else value
        for name, value in facts.items()
    }


def plain(record: DrainRecord) -> dict[str, Any]:
    """The record for JSON, with times in epoch seconds; ``typed`` reads it back."""
    return seconds({**asdict(record), "action": record.action.value})

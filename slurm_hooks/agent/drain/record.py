"""What this agent did to its node, kept over restarts: the ownership proof that an undo needs, and
returns that accounting has still to confirm (decision 025).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from holdfast.adapters.durable_file import Bounded, DurableFile, at_once
from holdfast.adapters.state_file import forget, read_state, write_state
from holdfast.adapters.typed_json import typed
from holdfast.config.schema import PathsConfig
from holdfast.policy.ownership import DrainRecord, Undrained
from holdfast.vocabulary import Action

VERSION = 1
T = TypeVar("T")


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


def load(path: Path) -> tuple[Drained | None, str]:
    """(record, problem). Never raises: without a record nothing is ever undone."""
    said, problem = read_state(path, version=VERSION)
    return _typed(said, Drained, problem, path)


def save(path: Path, drained: Drained | None) -> None:
    """Raises OSError."""
    if drained is None:
        forget(path)
        return
    write_state(path, _said(drained), version=VERSION)


def _said(drained: Drained) -> dict[str, Any]:
    return {"record": plain(drained.record), "subject": drained.subject}


class Records:
    """The drain record and the last return, each kept in ``paths.state``, or in ``paths.run`` as long
    as the disk does not take it. Never raises: what cannot be written stops no drain (law 12).
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
        """Why the disk has not what was kept last."""

    @property
    def _files(self) -> tuple[DurableFile, ...]:
        return (self._drain, self._undrained, self._last)

    @property
    def in_memory(self) -> Path:
        """The drain record's copy in ``paths.run``: a hook that drains leaves it there."""
        return self._drain.memory

    @property
    def unwritten(self) -> bool:
        return any(kept.unwritten for kept in self._files)

    def set_aside(self) -> None:
        """Take the room on the disk that later writes need. Raises OSError."""
        for kept in self._files:
            kept.set_aside()

    def load(self) -> tuple[Drained | None, str]:
        """(record, problem): without a record nothing is ever undone."""
        said, problem = self._drain.load()
        return _typed(said, Drained, problem, self._drain.disk)

    def save(self, drained: Drained | None) -> None:
        said = _said(drained) if drained is not None else None
        self.problem = self._drain.save(said, self._bounded)

    def hand_over(self, drained: Drained | None) -> None:
        """As ``save``; the copy in memory stays, so that a running agent sees the change there."""
        self.save(drained)
        self._drain.hand_over(_said(drained) if drained is not None else None)

    def load_last(self) -> Drained | None:
        """The record of the drain that was ended last."""
        said, problem = self._last.load()
        return _typed(said, Drained, problem, self._last.disk)[0]

    def save_last(self, drained: Drained) -> None:
        self.problem = self._last.save(_said(drained), self._bounded)

    def load_return(self) -> tuple[Undrained | None, str]:
        said, problem = self._undrained.load()
        return _typed(said, Undrained, problem, self._undrained.disk)

    def save_return(self, undrained: Undrained | None) -> None:
        said = seconds(asdict(undrained)) if undrained is not None else None
        self.problem = self._undrained.save(said, self._bounded)

    def settle(self) -> None:
        """Write to the disk what is only in memory."""
        found = [kept.settle(self._bounded) for kept in self._files]
        self.problem = next((problem for problem in found if problem), "")


def _typed(
    said: dict[str, Any] | None, kind: type[T], problem: str | None, path: Path
) -> tuple[T | None, str]:
    if said is None:
        return None, problem or ""
    try:
        return typed(said, kind), problem or ""
    except ValueError as error:
        return None, f"{path}: {error}; going on without it"


def seconds(facts: dict[str, Any]) -> dict[str, Any]:
    """Times in epoch seconds, for JSON."""
    return {
        name: value.timestamp() if isinstance(value, datetime) else value
        for name, value in facts.items()
    }


def plain(record: DrainRecord) -> dict[str, Any]:
    """For JSON, times in epoch seconds; ``typed`` reads it back."""
    return seconds({**asdict(record), "action": record.action.value})

"""A line of a log, and the line that explains a failure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slurm_hooks.job.signatures import Signature

_CHANGING = re.compile(r"0x[0-9a-f]+|\d+|(?:/[\w.+-]+)+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of a log; ``number`` counts from 1."""

    file: str
    number: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The line that explains the failure. ``host`` and ``rank`` are None if the line has none.

    ``peer``: the host at the other end of a connection. ``ranks``: the ranks that the line blames.
    """

    signature: Signature
    line: LogLine
    host: str | None
    rank: int | None
    peer: str | None = None
    ranks: tuple[int, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Equal for lines that differ only in numbers, addresses and paths."""
        return f"{self.signature.code}:{_CHANGING.sub('#', self.line.text)[:200]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """``cause`` None: no line explains the failure. ``others``: code → count of other lines that match,
    consequences included. ``failed_ranks``: how many failed by themselves according to torchrun.
    """

    cause: Cause | None
    suspects: tuple[str, ...]
    others: dict[str, int]
    failed_ranks: int = 0

    @classmethod
    def none(cls) -> Diagnosis:
        """No line matched."""
        return cls(cause=None, suspects=(), others={})

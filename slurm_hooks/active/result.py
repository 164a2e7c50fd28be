"""The result of an active check: verdict and readings, and their encoding as one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

MARK = "HOLDFAST-ACTIVE-CHECK "
"""Before the result in a job's output, which may also have output of the site's prolog."""


IN_DETAIL = 4
"""Failed readings that the detail of a result has; the others are only counted there."""


class CheckOutcome(str, Enum):
    """The verdict of an active check."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    """The program is missing, Slurm did not start it, or its output proves nothing about the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One value for the report. ``ok`` None: not judged. ``section``: section of the report."""

    section: str
    subject: str
    value: str
    limit: str = "-"
    ok: bool | None = None

    def as_text(self) -> str:
        """The reading with its limit, for people."""
        return f"{self.subject} {self.value} (limit {self.limit})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The result of ``read``: a program's output, judged."""

    verdict: CheckOutcome
    detail: str
    readings: tuple[Measurement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One check on one node, or on a pair (``nodes`` has both). ``at``: start in epoch seconds."""

    check: str
    verdict: CheckOutcome
    detail: str
    nodes: tuple[str, ...] = ()
    readings: tuple[Measurement, ...] = ()
    at: float = 0.0
    wall_s: float = 0.0

    def on(self, nodes: Sequence[str], *, at: float, wall_s: float) -> Result:
        return replace(self, nodes=tuple(nodes), at=at, wall_s=wall_s)

    def plain(self) -> dict[str, Any]:
        """As a dict for JSON, keys in the order of the fields."""
        return {**asdict(self), "verdict": self.verdict.value}


def judged_by(readings: Sequence[Measurement], *, passed: str) -> Judged:
    """Failed if any reading failed; passed if all judged readings are ok; error if none was
    judged, because nothing was measured.
    """
    bad = [reading for reading in readings if reading.ok is False]
    if bad:
        detail = "; ".join(reading.as_text() for reading in bad[:IN_DETAIL])
        more = f" and {len(bad) - IN_DETAIL} more" if len(bad) > IN_DETAIL else ""
        return Judged(verdict=CheckOutcome.FAILED, detail=detail + more, readings=tuple(readings))
    if not any(reading.ok for reading in readings):
        return could_not_run("nothing was measured", readings)
    return Judged(verdict=CheckOutcome.PASSED, detail=passed, readings=tuple(readings))


def could_not_run(why: str, readings: Sequence[Measurement] = ()) -> Judged:
    return Judged(verdict=CheckOutcome.ERROR, detail=one_line(why), readings=tuple(readings))


def failed(why: str, readings: Sequence[Measurement] = ()) -> Judged:
    return Judged(verdict=CheckOutcome.FAILED, detail=one_line(why), readings=tuple(readings))


def one_line(text: str, most: int = 300) -> str:
    """Output of a program on one line, at most ``most`` characters."""
    folded = " ".join(text.split())
    return folded if len(folded) <= most else folded[: most - 1] + "…"


def encode(check: str, judged: Judged) -> str:
    """The line that a test job prints."""
    values = {"check": check, **asdict(judged), "verdict": judged.verdict.value}
    return MARK + json.dumps(values)


def decode(output: str) -> Result | None:
    """The result in a job's output; None if there is no valid one."""
    for line in reversed(output.splitlines()):
        _, mark, body = line.partition(MARK)
        if mark:
            try:
                return from_plain(json.loads(body))
            except (ValueError, TypeError, KeyError):
                return None
    return None


def from_plain(values: Mapping[str, Any]) -> Result:
    """A result from its JSON. Raises ValueError, TypeError or KeyError."""
    readings = tuple(Measurement(**reading) for reading in values.get("readings") or ())
    return Result(
        check=str(values["check"]),
        verdict=CheckOutcome(values["verdict"]),
        detail=str(values["detail"]),
        nodes=tuple(str(node) for node in values.get("nodes") or ()),
        readings=readings,
        at=float(values.get("at") or 0.0),
        wall_s=float(values.get("wall_s") or 0.0),
    )

"""What an active check says: its verdict, and the values behind it. One JSON line on the wire."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

MARK = "HOLDFAST-ACTIVE-CHECK "
"""In front of the result in a job's output, where a site's prolog may have printed before."""


class Verdict(str, Enum):
    """What came of an active check."""

    PASSED = "passed"
    FAILED = "failed"
    COULD_NOT_RUN = "could-not-run"
    """The program is missing, Slurm did not start it, or its answer says nothing about the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One value for the report. ``ok`` None: shown and not judged. ``section`` as on the page."""

    section: str
    subject: str
    value: str
    limit: str = "-"
    ok: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What ``read`` makes of a program's output."""

    verdict: Verdict
    detail: str
    readings: tuple[Reading, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One check on one node (on a pair: ``nodes`` has both). ``at`` in epoch seconds."""

    check: str
    verdict: Verdict
    detail: str
    nodes: tuple[str, ...] = ()
    readings: tuple[Reading, ...] = ()
    at: float = 0.0
    wall_s: float = 0.0

    def on(self, nodes: Sequence[str], *, at: float, wall_s: float) -> Result:
        return replace(self, nodes=tuple(nodes), at=at, wall_s=wall_s)

    def plain(self) -> dict[str, Any]:
        """For JSON; keys in the order of the fields."""
        return {**asdict(self), "verdict": self.verdict.value}


def judged_by(readings: Sequence[Reading], *, passed: str) -> Judged:
    """Failed when any reading is not ok, passed when all that are judged are, and could-not-run
    when none was judged: nothing measured is nothing proven.
    """
    bad = [one for one in readings if one.ok is False]
    if bad:
        detail = "; ".join(f"{one.subject} {one.value} (limit {one.limit})" for one in bad[:4])
        more = f" and {len(bad) - 4} more" if len(bad) > 4 else ""
        return Judged(verdict=Verdict.FAILED, detail=detail + more, readings=tuple(readings))
    if not any(one.ok for one in readings):
        return could_not_run("it measured nothing", readings)
    return Judged(verdict=Verdict.PASSED, detail=passed, readings=tuple(readings))


def could_not_run(why: str, readings: Sequence[Reading] = ()) -> Judged:
    return Judged(verdict=Verdict.COULD_NOT_RUN, detail=one_line(why), readings=tuple(readings))


def failed(why: str, readings: Sequence[Reading] = ()) -> Judged:
    return Judged(verdict=Verdict.FAILED, detail=one_line(why), readings=tuple(readings))


def one_line(text: str, most: int = 300) -> str:
    """Any output as one line for people."""
    folded = " ".join(text.split())
    return folded if len(folded) <= most else folded[: most - 1] + "…"


def encode(check: str, judged: Judged) -> str:
    """The line that a job prints."""
    said = {"check": check, **asdict(judged), "verdict": judged.verdict.value}
    return MARK + json.dumps(said)


def decode(output: str) -> Result | None:
    """The result among a job's output; None when there is none that can be read."""
    for line in reversed(output.splitlines()):
        _, mark, body = line.partition(MARK)
        if mark:
            try:
                return from_plain(json.loads(body))
            except (ValueError, TypeError, KeyError):
                return None
    return None


def from_plain(said: Mapping[str, Any]) -> Result:
    """A result from its JSON. Raises ValueError, TypeError or KeyError."""
    readings = tuple(Reading(**one) for one in said.get("readings") or ())
    return Result(
        check=str(said["check"]),
        verdict=Verdict(said["verdict"]),
        detail=str(said["detail"]),
        nodes=tuple(str(node) for node in said.get("nodes") or ()),
        readings=readings,
        at=float(said.get("at") or 0.0),
        wall_s=float(said.get("wall_s") or 0.0),
    )

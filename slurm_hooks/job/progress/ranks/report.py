"""What one rank does while its job hangs, as a node reports it to the launcher: one line of JSON. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

MARK = "holdfast-rank "
"""Before the report in srun's output, which may also have output of the site's prolog."""
_MAX_CHARS = 4000
_MAX_PLACES = 12
_WORD = re.compile(r"[\w.:+-]{1,80}", re.ASCII)
_BUSY = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """One rank.

    ``state``    state letter of its main thread (proc(5)): R runs, S sleeps, D cannot be interrupted.
    ``place``    kernel function in which the main thread sleeps; empty: not known, or it runs.
    ``busy``     CPU use of the main thread during the sample, 1.0: one core.
    ``threads``  place → number of its threads and of those of its child processes that sleep there.
    ``blocked``  places of its threads that are in state D.
    ``pending``  what it waits for according to torch's flight recorder; None: no recorder.
    """

    node: str
    rank: int
    pid: int
    name: str
    state: str
    place: str = ""
    busy: float = 0.0
    threads: Mapping[str, int] = field(default_factory=dict)
    blocked: tuple[str, ...] = ()
    pending: Mapping[str, int] | None = None

    @property
    def activity(self) -> str:
        """Equal for ranks that do the same."""
        if self.busy >= _BUSY:
            return "is busy"
        if self.state == "D":
            return f"is blocked in {self.place or 'the kernel'}"
        return f"sleeps in {self.place}" if self.place else "sleeps"

    def line(self) -> str:
        """For ``read``."""
        threads = sorted(self.threads.items(), key=lambda item: (-item[1], item[0]))
        record = {
            "node": self.node,
            "rank": self.rank,
            "pid": self.pid,
            "name": self.name[:40],
            "state": self.state,
            "place": self.place,
            "busy": round(self.busy, 2),
            "threads": dict(threads[:_MAX_PLACES]),
            "blocked": sorted(set(self.blocked))[:_MAX_PLACES],
            "pending": None if self.pending is None else dict(list(self.pending.items())[:50]),
        }
        return f"{MARK}{json.dumps(record)}\n"

    def text(self) -> str:
        """For people."""
        threads = ", ".join(f"{count} in {place}" for place, count in self.threads.items())
        blocked = f"; blocked: {', '.join(self.blocked)}" if self.blocked else ""
        pending = ""
        if self.pending is not None:
            waits = ", ".join(f"{number} of {group}" for group, number in self.pending.items())
            pending = f"; waits for collective {waits}" if waits else "; waits for no collective"
        head = f"{self.node} rank {self.rank} pid {self.pid} {self.name}: {self.activity}"
        return f"{head} (CPU {self.busy:.0%}); threads: {threads or 'none'}{blocked}{pending}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """``ranks``: sorted. ``answered``: the nodes that have reported all their ranks."""

    ranks: tuple[RankReport, ...] = ()
    answered: frozenset[str] = frozenset()


def done_line(node: str) -> str:
    """The last line of a node."""
    return f"{MARK}{json.dumps({'node': node, 'done': True})}\n"


def read(lines: Iterable[str], nodes: frozenset[str]) -> Collected:
    """The reports among ``lines`` of these nodes. A line that is not one is left out."""
    found: dict[tuple[str, int], RankReport] = {}
    answered = set()
    for line in lines:
        if not line.startswith(MARK) or len(line) > _MAX_CHARS:
            continue
        try:
            record = json.loads(line[len(MARK) :])
            if record["node"] not in nodes:
                continue
            if record.get("done"):
                answered.add(str(record["node"]))
                continue
            report = _report(record)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        found[report.node, report.rank] = report
    ranks = sorted(found.values(), key=lambda report: (report.rank, report.node))
    return Collected(ranks=tuple(ranks), answered=frozenset(answered))


def _report(record: Mapping[str, Any]) -> RankReport:
    pending = record["pending"]
    return RankReport(
        node=str(record["node"]),
        rank=int(record["rank"]),
        pid=int(record["pid"]),
        name=_word(record["name"]),
        state=_word(record["state"])[:1],
        place=_word(record["place"]),
        busy=float(record["busy"]),
        threads={_word(place): int(count) for place, count in record["threads"].items()},
        blocked=tuple(_word(place) for place in record["blocked"]),
        pending=None if pending is None else {_word(g): int(n) for g, n in pending.items()},
    )


def _word(value: object) -> str:
    """Text that can stand in a log: names of processes are the user's own."""
    return value if isinstance(value, str) and _WORD.fullmatch(value) else ""

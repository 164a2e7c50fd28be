"""What one attempt printed: the lines that may be the cause, and which of them is.

The cause is the earliest of the heaviest lines (``Weight``). Training that goes on after a line shows that
the line was not fatal, so the line is dropped. A bad node that the launcher names outranks other lines,
since Slurm or the node's agent confirmed it.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from slurm_hooks.job.diagnosis.lines.clock import comparable
from slurm_hooks.job.diagnosis.lines.launcher_lines import is_confirmed
from slurm_hooks.job.diagnosis.lines.line import Cause, Diagnosis
from slurm_hooks.job.diagnosis.lines.places import Places, hosts_of
from slurm_hooks.job.signatures import TASK_FAILED, Kind, Suspect, Weight

_KEPT_OF_EACH = 8
"""A log may hold a million lines of one code. The first ones are enough."""
_MAX_RANKS = 100_000
_ENQUEUED = re.compile(r"last enqueued (?:NCCL )?work: (?P<work>-?\d{1,15})")
_STEPS_AFTER = 3
"""Other ranks may finish a step or two after a rank has died."""
_SYMPTOMS = frozenset({Kind.COLLECTIVE_TIMEOUT, Kind.HANG})
_EXPLAINS = frozenset({Kind.GPU, Kind.NETWORK, Kind.HOST, Kind.STORAGE})
_WARNED_BY = {"R03": "R13"}
"""An error → the warnings before it that tell more: torch names the port and the errno in these."""
_ABORTED, _WHY = "terminate called after throwing", "  what(): "
"""Two lines that C++ prints for one error. The second one tells it."""
_REQUEUED = "DUE TO JOB REQUEUE"
"""The end of a line of L02 that follows a requeue. Any other line is a better cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A line that may be the cause. ``order``: the order in which the lines were read; ``steps``: the
    training steps seen before it; ``survived``: training went on after an earlier line of this code, which
    need not be fatal."""

    cause: Cause
    at: datetime | None
    order: int
    steps: int
    survived: bool = False

    @property
    def weight(self) -> int:
        if self.survived:
            return Weight.CONSEQUENCE.value
        if _REQUEUED in self.cause.line.text:
            return Weight.WEAK.value
        return self.cause.signature.weight.value

    @property
    def may_pass(self) -> bool:
        """False for what ended the job whatever was printed later."""
        row = self.cause.signature
        return row.may_pass and (row.code != TASK_FAILED or self.steps == 0)


class Attempt:
    """The lines of one attempt that match a signature."""

    REPORTS = frozenset({"N01", "N02"})
    """Each rank prints one. A rank that prints none, or that is behind, is the one they wait for."""

    def __init__(self) -> None:
        self._reports: dict[int, int | None] = {}
        self._hits: list[Hit] = []
        self._counts: Counter[str] = Counter()
        self._steps = 0
        self._recent: deque[str] = deque(maxlen=8)
        self._survived: set[str] = set()
        self.empty = True

    @property
    def wants_progress(self) -> bool:
        """True while progress could show that a line was not the cause."""
        return any(hit.may_pass for hit in self._hits)

    def wants(self, code: str) -> bool:
        """False if enough lines of this code are known; it is then only counted."""
        return sum(hit.cause.signature.code == code for hit in self._hits) < _KEPT_OF_EACH

    def count(self, code: str) -> None:
        self._counts[code] += 1
        self.empty = False

    def report(self, cause: Cause) -> None:
        """Notes which ranks wait for a collective, and which work they had enqueued."""
        if cause.rank is not None and len(self._reports) < _MAX_RANKS:
            found = _ENQUEUED.search(cause.line.text)
            self._reports[cause.rank] = int(found["work"]) if found else None

    @property
    def recorded(self) -> tuple[int, ...]:
        """The ranks that the others wait for according to flight recorders."""
        return next((h.cause.ranks for h in self._hits if h.cause.signature.code == "N31"), ())

    def awaited(self, places: Places) -> tuple[int, ...]:
        """The ranks that the others wait for, empty if they are not known."""
        # A rank that died prints no report. If many are silent, the log is just not complete.
        silent = sorted(places.rank_hosts.keys() - self._reports.keys())
        if self._reports and 0 < len(silent) <= max(1, len(places.rank_hosts) // 4):
            return tuple(silent)
        works = {rank: work for rank, work in self._reports.items() if work is not None}
        behind = sorted(rank for rank, work in works.items() if work == min(works.values()))
        return tuple(behind) if 0 < len(behind) <= len(works) // 4 else ()

    def add(self, cause: Cause, at: datetime | None, order: int) -> None:
        if cause.signature.weight is not Weight.NONE:
            survived = cause.signature.code in self._survived
            hit = Hit(cause=cause, at=at, order=order, steps=self._steps, survived=survived)
            self._hits.append(hit)

    def progressed(self, step: str) -> None:
        """The job printed that it is at ``step``, a text that differs for each step."""
        if step not in self._recent:
            self._recent.append(step)
            self._steps += 1
            self._drop(_STEPS_AFTER)

    def finished(self) -> None:
        """The training printed that it is done."""
        self._drop(0)

    def ended_well(self) -> None:
        """The job's script printed that it ended without errors. Many scripts print that in any case, so only
        lines that need not be fatal are dropped."""
        self._hits = [
            hit
            for hit in self._hits
            if hit.weight >= Weight.FATAL.value or hit.cause.signature.kind is Kind.SCHEDULER
        ]

    def _drop(self, steps: int) -> None:
        """Drops the lines that so many steps have followed."""
        newest = self._steps - steps
        kept = [hit for hit in self._hits if not hit.may_pass or hit.steps > newest]
        if len(kept) == len(self._hits):
            return
        rows = {hit.cause.signature for hit in self._hits if hit not in kept}
        self._survived |= {row.code for row in rows if row.weight is Weight.POSSIBLE}
        self._hits = [replace(h, survived=h.cause.signature.code in self._survived) for h in kept]

    @property
    def strength(self) -> int:
        """The weight of the heaviest line."""
        return max((hit.weight for hit in self._hits), default=0)

    def possible(self) -> list[Hit]:
        """The lines that may be the cause, the best one first."""
        return ranked(self._hits)

    @property
    def counts(self) -> dict[str, int]:
        return dict(self._counts)


def ranked(hits: list[Hit]) -> list[Hit]:
    """The heaviest lines in the order of time, after what explains the first of them."""
    best = max((hit.weight for hit in hits), default=0)
    heavy = [hit for hit in hits if hit.weight == best]
    confirmed = [
        hit for hit in heavy if is_confirmed(hit.cause.signature.code, hit.cause.line.text)
    ]
    heavy = in_time(confirmed or heavy)
    if len(heavy) > 1 and _ABORTED in heavy[0].cause.line.text and _WHY in heavy[1].cause.line.text:
        heavy = heavy[1:]
    # A time-out says that somebody is missing; an earlier hint of a fault says why.
    if heavy and not confirmed and heavy[0].cause.signature.kind in _SYMPTOMS:
        reasons = [
            hit
            for hit in hits
            if hit.weight == Weight.POSSIBLE.value and hit.cause.signature.kind in _EXPLAINS
        ]
        heavy = [*_earlier(reasons, heavy[0]), *heavy]
    elif heavy:
        code = _WARNED_BY.get(heavy[0].cause.signature.code)
        warnings = [hit for hit in hits if hit.cause.signature.code == code]
        heavy = [*_earlier(warnings, heavy[0]), *heavy]
    return heavy


def _earlier(hits: list[Hit], than: Hit) -> list[Hit]:
    """Those that were printed before, in the order of time."""
    return in_time([hit for hit in hits if in_time([than, hit])[0] is hit])


def in_time(hits: list[Hit]) -> list[Hit]:
    """By clock where each file has one, else in the order in which they were read. Lines of one file stay
    in order."""
    # Within one file the order of the lines is surer than clocks of several machines.
    if len({hit.cause.line.file for hit in hits}) > 1 and all(hit.at for hit in hits):
        times = comparable([hit.at for hit in hits if hit.at])
        keys = {id(hit): time for hit, time in zip(hits, times, strict=True)}
        return sorted(hits, key=lambda hit: (keys[id(hit)], hit.order))
    return sorted(hits, key=lambda hit: hit.order)


def diagnosis_of(attempts: list[Attempt], places: Places) -> Diagnosis:
    """The diagnosis of the attempts of several files that belong together."""
    hits = [hit for attempt in attempts for hit in attempt.possible()]
    possible = [hit.cause for hit in ranked(hits)]
    cause = possible[0] if possible else None
    others: Counter[str] = Counter()
    awaited: list[str] = []
    for attempt in attempts:
        others.update(attempt.counts)
        awaited += hosts_of(attempt.recorded or attempt.awaited(places), places.rank_hosts)
    if cause:
        # It is shown as the cause, and not among the others again.
        others[cause.signature.code] -= 1
    suspects = list(_suspects(cause, possible, places)) if cause else []
    if cause and cause.signature.kind is Kind.COLLECTIVE_TIMEOUT:
        suspects = suspects or awaited
    return Diagnosis(
        cause=cause,
        suspects=tuple(dict.fromkeys(suspects)),
        others={code: count for code, count in others.items() if count},
    )


def _host(cause: Cause, places: Places) -> str | None:
    if cause.host is not None:
        return cause.host
    by_process = places.host_of_process(cause.line.text)
    if by_process is None and cause.rank is not None:
        return places.rank_hosts.get(cause.rank)
    return by_process


def _suspects(cause: Cause, possible: list[Cause], places: Places) -> Iterator[str]:
    """Hosts that the cause makes suspect. The host of a victim is not suspect (``NAMED_RANK``)."""
    same = [other for other in possible if other.signature.code == cause.signature.code]
    host = _host(cause, places)
    match cause.signature.suspect:
        case Suspect.YES:
            yield from [host] if host else []
        case Suspect.BOTH_ENDS:
            yield from [host] if host else []
            yield from [cause.peer] if cause.peer else []
        case Suspect.IF_REPEATED | Suspect.IF_ALONE as when:
            enough = len(same) > 1 or when is Suspect.IF_ALONE
            if host and enough and {_host(other, places) for other in same} == {host}:
                yield host
        case Suspect.NAMED_RANK:
            yield from [cause.peer] if cause.peer else []
            yield from hosts_of(cause.ranks, places.rank_hosts)
        case Suspect.NO | Suspect.ONE_NODE:
            return  # for ONE_NODE, a log does not show how many nodes the job had

"""The earlier attempts of this job, read from its journal. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from holdfast.policy.job.facts import FailureKind
from holdfast.records.job_journal import Event, attempts, last
from holdfast.vocabulary import SlurmName
from slurm_hooks.job.checkpoints.bisection import Evidence, Trial
from slurm_hooks.job.diagnosis.lines.launcher_lines import HANG

_NOT_THE_CHECKPOINT = frozenset(
    kind.value
    for kind in (
        *(FailureKind.INFRASTRUCTURE, FailureKind.NODE),
        *(FailureKind.OUTAGE, FailureKind.MEMORY),
    )
)
_OF_THE_CHECKPOINT = frozenset({FailureKind.CHECKPOINT.value, FailureKind.NUMERIC.value})
MAX_FAILED_RESUMES = 2
"""A checkpoint is skipped after this many attempts that resumed from it and wrote no newer one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalAttempt:
    """One earlier attempt.

    ``started``       a step was started; ``ended``: its launcher recorded the end of it.
    ``terminated``    scancel, requeue by a user, time limit, preemption, or a requeue before the time
                      limit (``--continue``).
    ``resumed_path``  the checkpoint that it started from, empty for none; ``resumed_step`` its
                      step.
    ``fingerprint``   equal for failures that look alike.
    ``progressed``    it left a newer checkpoint than it started from; None: not known.
    ``node_fault``    a node was at fault: no evidence against the checkpoint or the code.
    ``ended_at``      epoch seconds of its last event; ``wall_s``: how long its step ran.
    ``kind``          what its output attributes the failure to (``FailureKind``).
    ``proved``        the launcher ended it to try a newer checkpoint: this one works.
    ``settled``       it succeeded, or the job was held after it and a person has released it.
    ``whole``         its launcher saw all its tasks end. ``nodes``: hostlist of its allocation.
    """

    number: int
    started: bool
    ended: bool
    exit_code: int | None
    terminated: bool
    resumed_path: str
    resumed_step: int | None
    fingerprint: str
    progressed: bool | None
    node_fault: bool
    suspects: tuple[str, ...]
    ended_at: float
    wall_s: float = 0.0
    kind: str = ""
    proved: bool = False
    settled: bool = False
    whole: bool = False
    nodes: str = ""

    @property
    def failed(self) -> bool:
        """It ran and failed by itself."""
        own = self.started and self.ended and not self.terminated and not self.proved
        return own and bool(self.exit_code)

    @property
    def launcher_lost(self) -> bool:
        return self.started and not self.ended and not self.terminated


def past(events: Iterable[Event]) -> list[JournalAttempt]:
    """The attempts so far, oldest first."""
    found = [_past(group) for group in attempts(events)]
    for index, attempt in enumerate(found[:-1]):
        # A launcher that was killed recorded no progress. The next attempt's checkpoint shows it.
        newer = is_newer(found[index + 1].resumed_step, attempt.resumed_step)
        if attempt.progressed is None and newer:
            found[index] = replace(attempt, progressed=True)
    return found


def _past(group: Sequence[Event]) -> JournalAttempt:
    chosen = _table((last(group, "checkpoint") or {}).get("chosen"))
    end = last(group, "step_end") or {}
    evidence = last(group, "evidence") or {}
    finish = last(group, "finish") or {}
    return JournalAttempt(
        number=_integer(group[0].get("attempt")) or 0,
        started=last(group, "step_start") is not None,
        ended=bool(end),
        exit_code=_integer(end.get("exit_code")),
        terminated=_by_others(group, end, finish),
        resumed_path=str(chosen.get("path", "")),
        resumed_step=_integer(chosen.get("step")),
        fingerprint=str(evidence.get("fingerprint", "")),
        progressed=_succeeded_so_far(group) or _bool(evidence.get("progressed")),
        node_fault=bool(evidence.get("faults")),
        suspects=tuple(map(str, _items(evidence.get("suspects")))),
        ended_at=_timestamp([event for event in group if event["event"] != "skipped"][-1].get("t")),
        wall_s=_timestamp(end.get("wall_s")),
        kind=str(evidence.get("kind", "")),
        proved=last(group, "proved") is not None,
        settled=bool(finish.get("succeeded") or (last(group, "requeue") or {}).get("held")),
        whole=end.get("whole") is True,
        nodes=str(group[0].get("nodes", "")),
    )


def _succeeded_so_far(group: Sequence[Event]) -> bool:
    """The launcher ended the attempt although it worked."""
    return any(last(group, name) is not None for name in ("proved", "continued"))


def _by_others(group: Sequence[Event], end: Event, finish: Event) -> bool:
    """The event ``terminated`` is there also if Slurm has killed the launcher after KillWait."""
    told = end.get("terminated") or finish.get("cancelled")
    return bool(told) or any(last(group, name) is not None for name in ("terminated", "continued"))


# The file may hold values of any type: another version of Holdfast or a person may have written it.


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _bool(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _timestamp(value: object) -> float:
    """Epoch seconds; 0 for a value that is not a plausible time."""
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 32e9 else 0.0


def is_newer(step: int | None, than: int | None) -> bool:
    """True when a checkpoint of ``step`` is newer than one of ``than`` (None: there is none)."""
    return step is not None and (than is None or step > than)


def evidence_on_checkpoints(history: Sequence[JournalAttempt]) -> Evidence:
    """What the attempts so far say about the checkpoints that they resumed from.

    The first is bad after ``MAX_FAILED_RESUMES`` failures, since other causes are as likely. From then
    on one failure is enough, unless an attempt has made progress from it. A failure that points to the
    checkpoint, since it could not be loaded or the loss was NaN, makes it suspected; the second one bad.
    """
    counts: Counter[str] = Counter()
    bad: list[Trial] = []
    good: list[Trial] = []
    suspected: list[Trial] = []
    longest_s = 0.0
    for index, attempt in enumerate(history):
        if not attempt.resumed_path:
            continue
        trial = Trial(
            path=attempt.resumed_path, step=attempt.resumed_step, ended_at=attempt.ended_at
        )
        if attempt.progressed:
            good.append(trial)
        elif _counts_against_checkpoint(attempt, history[index + 1 :]):
            counts[attempt.resumed_path] += 1
            longest_s = max(longest_s, attempt.wall_s)
            worked = any(other.path == trial.path for other in good)
            told = attempt.kind in _OF_THE_CHECKPOINT and not worked
            if (
                (bad and not worked)
                or counts[attempt.resumed_path] >= MAX_FAILED_RESUMES
                or (told and suspected)
            ):
                bad += [*suspected, trial]
                suspected = []
            elif told:
                suspected = [trial]
    return Evidence(
        bad=tuple(bad),
        suspected=tuple(suspected),
        good=tuple(good),
        failed_after_s=longest_s,
    )


def _counts_against_checkpoint(attempt: JournalAttempt, later: Sequence[JournalAttempt]) -> bool:
    if not attempt.failed or attempt.node_fault or attempt.kind in _NOT_THE_CHECKPOINT:
        return False
    return not any(is_newer(after.resumed_step, attempt.resumed_step) for after in later)


def excluded_nodes(events: Iterable[Event]) -> dict[SlurmName, datetime]:
    """The nodes that Holdfast has added to the job's ExcNodeList, and when last."""
    found = {}
    for event in events:
        if event["event"] == "requeue":
            at = datetime.fromtimestamp(_timestamp(event.get("t")), tz=timezone.utc)
            found.update({SlurmName(str(name)): at for name in _items(event.get("excluded"))})
    return found


def hangs_in_a_row(history: Sequence[JournalAttempt]) -> int:
    """How many of the last attempts in a row were ended for a hang without a newer checkpoint."""
    count = 0
    for attempt in reversed(history):
        if attempt.fingerprint != HANG.code or attempt.progressed:
            break
        count += 1
    return count


def lost_launchers(history: Sequence[JournalAttempt]) -> int:
    """How many of the last attempts in a row ended because their launcher was killed."""
    count = 0
    for attempt in reversed(history):
        if not attempt.launcher_lost:
            break
        count += 1
    return count

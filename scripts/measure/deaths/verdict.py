"""What a job's journal and Slurm say about its death, compared with what must follow. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.records.job_journal import attempts, last
from measure.deaths.death import Expect
from slurm_hooks.job.past_attempts import JournalAttempt, past

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What happened to one job.

    ``first_nodes``  of its first run; ``last_nodes``: of its last one.
    ``excluded``     its list at the end; ``asked``: what its owner excluded.
    ``restarting_s`` from each decision to requeue until the job runs again; ``here_s``: from each decision
                     to restart until the next step.
    """

    events: Sequence[Event]
    state: str
    victim: str
    last_nodes: tuple[str, ...]
    excluded: tuple[str, ...]
    asked: tuple[str, ...] = ()
    first_nodes: tuple[str, ...] = ()
    restarting_s: tuple[float, ...] = ()
    here_s: tuple[float, ...] = ()


def ends(events: Sequence[Event]) -> tuple[str, ...]:
    """How each attempt ended, in the words of ``Expect.ends``."""
    return tuple(map(_end, attempts(events)))


def _end(group: Sequence[Event]) -> str:
    decision, finish = last(group, "decision"), last(group, "finish")
    if decision is not None:
        return str(decision.get("action"))
    if finish is not None:
        if finish.get("succeeded"):
            return "done"
        return "others" if finish.get("cancelled") else "unclear"
    return "others" if last(group, "terminated") is not None else "lost"


def charged(attempt: JournalAttempt) -> bool:
    """Whether the attempt counts against the job."""
    own = attempt.started and attempt.ended and not attempt.terminated
    failed = own and bool(attempt.exit_code) and not attempt.node_fault
    return failed and attempt.kind != "outage"


def problems(seen: Seen, expect: Expect) -> list[str]:
    """What is wrong; nothing if the right action followed."""
    found = []

    def compare(what: str, got: object, wanted: object) -> None:
        if got != wanted:
            found.append(f"{what}: {got}, expected {wanted}")

    wanted = expect.or_ends if ends(seen.events) == expect.or_ends else expect.ends
    by_slurm = expect.or_slurm and ends(seen.events)[:1] == ("others",)
    if by_slurm:
        wanted = ("others", *wanted[1:])
    compare("attempts", ", ".join(ends(seen.events)), ", ".join(wanted))
    compare("state", seen.state, expect.state)
    compare("charged attempts", sum(map(charged, past(list(seen.events)))), expect.charged)
    if expect.avoids and seen.victim in seen.last_nodes:
        found.append(f"the last run used {seen.victim} again")
    again = set(seen.first_nodes) & set(seen.last_nodes)
    if expect.avoids_all and (again or not seen.first_nodes):
        found.append(f"the last run used {', '.join(sorted(again))} again")
    if expect.keeps and not {seen.victim, *seen.asked} <= set(seen.excluded):
        found.append(
            f"excludes {', '.join(seen.excluded)}; its owner asked for {', '.join(seen.asked)}"
        )
    reasons = [str(event.get("why")) for event in seen.events if event["event"] == "decision"]
    if expect.because and not by_slurm and not (reasons and expect.because in reasons[-1]):
        found.append(f"reason: {reasons[-1:]}, expected {expect.because!r}")
    compare("tests in pairs", sum(e["event"] == "pairs" for e in seen.events), int(expect.tests))
    if expect.resumes is not None:
        chosen = (last(seen.events, "checkpoint") or {}).get("chosen") or {}
        compare("resumed from step", chosen.get("step"), expect.resumes)
    return found

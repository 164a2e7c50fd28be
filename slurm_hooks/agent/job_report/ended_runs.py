"""The runs of jobs that have ended here and have no final report yet: each is looked at once or twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_hooks.agent.component import NEVER
from slurm_hooks.agent.job_report import leftovers
from slurm_hooks.agent.job_report.report import Remains
from slurm_hooks.agent.job_report.reporter import NOTHING
from slurm_hooks.agent.job_runs.processes import JobProcess
from slurm_hooks.agent.job_runs.runs import JobRun, Key, Runs
from slurm_hooks.facts import NodeFacts


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass in which the GPUs answered: its facts, and when it began (seconds since boot)."""

    facts: NodeFacts | None = None
    began_s: float = -1.0


@dataclass(slots=True)
class _Ending:
    """``due``: monotonic time of the next scan for the run's processes. ``pass_s``: the pass that the first
    look used."""

    due: float
    looks: int = 0
    pass_s: float | None = None
    remains: Remains = NOTHING


class EndedRuns:
    """``grace_s``: how long processes may take to exit after Slurm's signal."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._endings: dict[Key, _Ending] = {}

    @property
    def next_at(self) -> float:
        return min((ending.due for ending in self._endings.values()), default=NEVER)

    @property
    def wait_for_pass(self) -> bool:
        """A second look is due, and it needs a newer pass."""
        return any(ending.looks for ending in self._endings.values())

    def add(self, key: Key, now: float) -> None:
        """A run has ended; nothing changes if it is known."""
        self._endings.setdefault(key, _Ending(due=now))

    def forget(self, key: Key | None) -> None:
        if key is not None:
            self._endings.pop(key, None)

    def due(self, now: float) -> Key | None:
        """The run whose processes have to be looked for now."""
        due = [(ending.due, key) for key, ending in self._endings.items() if ending.due <= now]
        return min(due)[1] if due else None

    def remains(self, key: Key) -> Remains:
        """What the last look found."""
        return self._endings[key].remains

    def looked(
        self,
        run: JobRun,
        known: Runs,
        table: Sequence[JobProcess],
        seen: Pass,
        blind: str,
        now: float,
    ) -> Remains | None:
        """What the run left, after a scan; None: it is looked at again. A process may need a moment to exit
        after Slurm's signal, so leftovers of the first scan are checked by a second one.

        ``blind``: why the scan is not complete.
        """
        ending, facts = self._endings[run.key], seen.facts
        left = leftovers.find_leftovers(known, run, table, facts) if facts else ()
        left = leftovers.settled(ending.remains.left, left)
        memory = leftovers.memory_left(known, run, facts) if facts else ()
        alive = any(leftover.fate == "alive" for leftover in left)
        ending.looks += 1
        if (alive or memory) and ending.looks == 1 and not run.skip:
            ending.due, ending.pass_s = now + self._grace_s, seen.began_s
            ending.remains = Remains(left=left)
            return None
        memory = memory if seen.began_s != ending.pass_s else ()  # no newer pass
        ending.remains = Remains(final=True, left=left, memory=memory, blind=blind)
        return ending.remains

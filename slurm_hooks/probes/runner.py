"""One pass over all probes that may block, each in a contained worker of its own, side by side.

The process that calls this touches neither driver nor mounts nor sysfs itself (law 1). What probes
there are and how often each is asked: slurm_hooks/probes/catalogue.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from holdfast.config.schema import PathsConfig, SlurmConfig
from slurm_hooks.facts import Blind
from slurm_hooks.probes.catalogue import BY_NAME, NVML, PROBES
from slurm_hooks.probes.probe import Probe, Sources
from slurm_hooks.settings.sections import AgentConfig, NodeConfig
from slurm_hooks.worker.worker import Answer, Worker, gather

__all__ = ["NVML", "Prober", "Readings"]

_PATIENT_PASSES = 2
"""Passes that wait for a probe's deadline in vain before none does any more: as many as condemn a
driver.
"""


@dataclass(slots=True)
class Readings:
    """What one pass brought.

    ``wanted``  the probes that are of interest at all, ``asked`` those that answered or fell silent
                in this pass; of the others nothing is new.
    ``facts``   what they found, by field of NodeFacts. A field that is not there: nothing to look
                at.
    ``looked``  the probes that found something to look at: the others are no evidence of anything.
    ``blind``   those that gave no answer.
    ``under_way``  those that were asked beside the passes, and have not answered yet.
    """

    wanted: frozenset[str] = frozenset()
    asked: set[str] = field(default_factory=set)
    facts: dict[str, Any] = field(default_factory=dict)
    looked: set[str] = field(default_factory=set)
    blind: list[Blind] = field(default_factory=list)
    under_way: set[str] = field(default_factory=set)


class Prober:
    """Starts passes and collects their answers; never blocks. ``wanted`` holds probes that checks
    need.
    """

    def __init__(
        self, node: NodeConfig, agent: AgentConfig, paths: PathsConfig, slurm: SlurmConfig
    ) -> None:
        self._sources = Sources(node=node, agent=agent, paths=paths, slurm=slurm)
        self._workers: dict[str, Worker] = {}
        self._waiting: dict[str, dict[str, Worker]] = {}
        self._background: dict[str, dict[str, Worker]] = {}
        self._answers: dict[str, dict[str, Answer]] = {}
        self._asked_at: dict[str, float] = {}
        self._hung: dict[str, int] = {}
        self._readings = Readings()
        self._passing = False
        self.release_driver = False
        """True while a GPU reset is waited for: an open NVML client stands in its way."""

    @property
    def running(self) -> bool:
        return self._passing

    @property
    def workers(self) -> list[Worker]:
        """Those whose answers the pass waits for."""
        return _flat(self._waiting)

    @property
    def deadline(self) -> float | None:
        """Monotonic time of the next deadline of this pass."""
        return min((w.deadline for w in self.workers if w.deadline), default=None)

    def start(self, wanted: Iterable[str], now: float) -> None:
        """Ask every wanted probe that is due. Not to be called while ``running``."""
        self._readings = Readings(wanted=frozenset(wanted))
        self._passing = True
        for probe in PROBES:
            if probe.name in self._readings.wanted and self._due(probe, now):
                self._ask(probe, now)

    def collect(self) -> Readings | None:
        """The pass's readings once every probe answered or ran out of time, else None.

        An answer of a background probe counts in the pass that finds it.
        """
        for waiting in (self._waiting, self._background):
            for name in list(waiting):
                self._take(waiting, name)
        if self._waiting:
            return None
        self._passing = False
        self._readings.under_way = set(self._background)
        return self._readings

    def run(self, wanted: Iterable[str]) -> Readings:
        """One whole pass over those that are due, at first all of them, and waited for, also those in
        the background. Bounded by the probes' deadlines.
        """
        self.start(wanted, time.monotonic())
        self._waiting |= self._background
        self._background = {}
        while (readings := self.collect()) is None:
            left = (self.deadline or 0.0) - time.monotonic()
            gather(self.workers, timeout_s=left)
        return readings

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()

    def reap(self, now: float) -> None:
        for worker in self._workers.values():
            worker.reap(now)

    # --- asking --------------------------------------------------------------------------------

    def _due(self, probe: Probe, now: float) -> bool:
        if probe.name in self._background:
            return False
        every_s = probe.every_s(self._sources.agent)
        return now - self._asked_at.get(probe.name, float("-inf")) >= every_s

    def _ask(self, probe: Probe, now: float) -> None:
        deadline_s = probe.deadline_s(self._sources)
        for target in probe.targets(self._sources):
            worker = self._worker(probe, target)
            if worker.busy:
                continue
            request = probe.request(target, self.release_driver)
            worker.ask(request, deadline_s=deadline_s)
            waiting = self._background if self._beside(probe) else self._waiting
            waiting.setdefault(probe.name, {})[target] = worker
        self._answers[probe.name] = {}
        self._asked_at[probe.name] = now

    def _beside(self, probe: Probe) -> bool:
        """Whether no pass waits for it: it may always take longer, or it hung twice in a row, and
        to wait for it again at each pass would make every other check late.
        """
        return probe.background or self._hung.get(probe.name, 0) >= _PATIENT_PASSES

    def _worker(self, probe: Probe, target: str) -> Worker:
        key = f"{probe.name}:{target}" if target else probe.name
        if key not in self._workers:
            token = self._sources.paths.run / "stuck" / f"{key.replace('/', '_').strip('_')}.json"
            open_ = partial(probe.open_, self._sources)
            self._workers[key] = Worker(key, open_, token=token, keep=probe.keep)
        return self._workers[key]

    # --- answers -------------------------------------------------------------------------------

    def _take(self, waiting: dict[str, dict[str, Worker]], name: str) -> None:
        for target, worker in list(waiting[name].items()):
            answer = worker.take()
            if answer is not None:
                del waiting[name][target]
                self._answers[name][target] = answer
        if not waiting[name]:
            del waiting[name]
            self._store(BY_NAME[name], self._answers.pop(name))

    def _store(self, probe: Probe, answers: dict[str, Answer]) -> None:
        readings = self._readings
        facts, blind = probe.digest(probe, answers)
        readings.asked.add(probe.name)
        if facts is not None:
            readings.facts[probe.facts] = facts
        if blind is not None:
            readings.blind.append(blind)
        elif facts is not None:
            readings.looked.add(probe.name)
        hung = any(answer.hung for answer in answers.values())
        self._hung[probe.name] = self._hung.get(probe.name, 0) + 1 if hung else 0
        if probe.stirs and hung:
            self._asked_at.pop(probe.stirs, None)


def _flat(waiting: dict[str, dict[str, Worker]]) -> list[Worker]:
    return [worker for workers in waiting.values() for worker in workers.values()]

"""Runs one pass over the probes, each in a contained worker of its own, in parallel.

The calling process never accesses the driver, mounts or sysfs itself (rule 1). The probes and their
intervals are in slurm_hooks/probes/catalogue.py.
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
"""After this many passes in which a probe missed its deadline, no pass waits for it any more. The
check driver_hung needs the same number of passes by default.
"""


@dataclass(slots=True)
class Readings:
    """The result of one pass.

    ``wanted``  the probes that checks need. ``asked``: those that answered or timed out in this
                pass; the facts of the others are from an earlier pass.
    ``facts``   by field of NodeFacts. A missing field: nothing to read on this node.
    ``looked``  the probes that read facts; only these count as evidence.
    ``blind``   the probes without an answer.
    ``under_way``  background probes that have not answered yet.
    """

    wanted: frozenset[str] = frozenset()
    asked: set[str] = field(default_factory=set)
    facts: dict[str, Any] = field(default_factory=dict)
    looked: set[str] = field(default_factory=set)
    blind: list[Blind] = field(default_factory=list)
    under_way: set[str] = field(default_factory=set)


class Prober:
    """Starts passes and collects their answers; never blocks. ``wanted``: the probes that checks
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
        """True while a GPU reset is pending: an open NVML client blocks it."""

    @property
    def running(self) -> bool:
        return self._passing

    @property
    def workers(self) -> list[Worker]:
        """The workers that the pass waits for."""
        return _flat(self._waiting)

    @property
    def deadline(self) -> float | None:
        """Monotonic time of the next deadline of this pass."""
        return min((w.deadline for w in self.workers if w.deadline), default=None)

    def start(self, wanted: Iterable[str], now: float) -> None:
        """Start every wanted probe that is due. Must not be called while ``running``."""
        self._readings = Readings(wanted=frozenset(wanted))
        self._passing = True
        for probe in PROBES:
            if probe.name in self._readings.wanted and self._due(probe, now):
                self._ask(probe, now)

    def collect(self) -> Readings | None:
        """The readings of the pass once every probe answered or timed out, else None.

        The answer of a background probe counts in the pass during which it arrives.
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
        """Run one whole pass and wait for it, background probes included. It takes no longer than
        the longest deadline. The first pass runs all probes.
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

    # --- requests ------------------------------------------------------------------------------

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
            waiting = self._background if self._in_background(probe) else self._waiting
            waiting.setdefault(probe.name, {})[target] = worker
        self._answers[probe.name] = {}
        self._asked_at[probe.name] = now

    def _in_background(self, probe: Probe) -> bool:
        """Whether no pass waits for the probe: it is a background probe, or it hung in two passes in
        a row. To wait for it again would delay every other check.
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
        if probe.also_triggers and hung:
            self._asked_at.pop(probe.also_triggers, None)


def _flat(waiting: dict[str, dict[str, Worker]]) -> list[Worker]:
    return [worker for workers in waiting.values() for worker in workers.values()]

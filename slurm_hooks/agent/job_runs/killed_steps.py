"""Steps whose slurmstepd was killed, from the agent's loop: a contained worker looks, since the folder of
the sockets may be on a disk that hangs. It is kept while jobs are here, so another one asks Slurm for the
folder."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from holdfast.adapters.log import Log
from holdfast.vocabulary import SlurmName
from slurm_hooks.agent.component import NEVER
from slurm_hooks.agent.job_runs.runs import Runs
from slurm_hooks.node.step_sockets import KilledStep, StepSockets
from slurm_hooks.settings.settings import Settings
from slurm_hooks.worker.worker import Answer, Worker

log = Log("agent")

LOOK_S = 2.0
"""Between two looks while jobs are here."""
_AFTER_PROBLEM_S = (5.0, 10.0, 30.0, 60.0, 300.0)
"""Until the next try after the first problem in a row, the second, and so on. The first ones are short: a
slurmctld that does not answer at this moment often does a few seconds later."""
_DEADLINE_S = 20.0


class KilledSteps:
    """``runs``: the jobs on this node. ``report`` is told of each step once."""

    def __init__(
        self,
        node: SlurmName,
        config: Settings,
        runs: Callable[[], Runs],
        report: Callable[[KilledStep], None],
    ) -> None:
        self._node, self._config, self._runs, self._report = node, config, runs, report
        self._folder: Path | None = None
        self._asks = Worker("spool_folder", self._open_question, keep=False)
        self._looks = Worker("killed_steps", self._open)
        self._next = 0.0
        self._problem, self._problems = "", 0

    @property
    def workers(self) -> list[Worker]:
        return [worker for worker in (self._asks, self._looks) if worker.busy]

    @property
    def next_at(self) -> float:
        return NEVER if self.workers or not self._jobs() else self._next

    def fds(self) -> Iterator[tuple[int, int]]:
        return iter(())

    def turn(self, now: float) -> bool:
        for worker in (self._asks, self._looks):
            answer = worker.take()
            if answer is not None:
                self._take(answer, now)
            worker.reap(now)
        if not self.workers and now >= self._next:
            self._next = now + LOOK_S
            self._start(self._jobs())
        return False

    def close(self) -> None:
        self._asks.close()
        self._looks.close()

    def _start(self, jobs: dict[int, float]) -> None:
        if not jobs:
            self._looks.close()
        elif self._folder is None:
            self._asks.ask(None, deadline_s=self._config.cluster.slurm.timeout_s + 5)
        else:
            self._looks.ask(jobs, deadline_s=_DEADLINE_S)

    def _jobs(self) -> dict[int, float]:
        runs = self._runs().runs.values()
        return {run.job: run.started_s for run in runs if run.ended_s is None}

    def _take(self, answer: Answer, now: float) -> None:
        for found in answer.items:
            if isinstance(found, KilledStep):
                log.warning("slurmstepd was killed", job=found.job, step=found.step)
                self._report(found)
            elif isinstance(found, Path):
                self._folder, self._next = found, now
        if not answer.error:
            self._problem, self._problems = "", 0
            return
        self._next = now + _AFTER_PROBLEM_S[min(self._problems, len(_AFTER_PROBLEM_S) - 1)]
        self._problems += 1
        if answer.error != self._problem:
            log.warning("killed slurmstepds cannot be detected", why=answer.error)
        self._problem = answer.error

    def _open_question(self) -> Callable[[Any], Iterator[Any]]:
        from holdfast.slurm.cli import SlurmCli  # noqa: PLC0415 - not in the worker that is kept

        slurm = self._config.cluster.slurm

        def serve(_request: object) -> Iterator[Path]:
            configured = SlurmCli(slurm.timeout_s, slurm.bin).spool_folder()
            yield spool_folder(configured, self._node, socket.gethostname())

        return serve

    def _open(self) -> Callable[[Any], Iterator[Any]]:
        assert self._folder is not None  # noqa: S101 - see _start
        return StepSockets(self._folder, self._node, self._config.cluster.paths.procfs).killed


def spool_folder(configured: str, node: str, host: str) -> Path:
    """SlurmdSpoolDir with the patterns of slurm.conf(5) replaced."""
    return Path(configured.replace("%n", node).replace("%h", host.partition(".")[0]))

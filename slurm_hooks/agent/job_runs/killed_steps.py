"""Steps whose slurmstepd was killed, from the agent's loop: a contained worker looks, since the folder of
the sockets may be on a disk that hangs."""

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
"""Between two looks while jobs are here. The second one after its end counts a slurmstepd as killed."""
_AFTER_PROBLEM_S = 300.0
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
        self._worker = Worker("killed_steps", self._open)
        self._next = 0.0
        self._problem = ""

    @property
    def workers(self) -> list[Worker]:
        return [self._worker] if self._worker.busy else []

    @property
    def next_at(self) -> float:
        return NEVER if self._worker.busy or not self._jobs() else self._next

    def fds(self) -> Iterator[tuple[int, int]]:
        return iter(())

    def turn(self, now: float) -> bool:
        answer = self._worker.take()
        if answer is not None:
            self._take(answer, now)
        self._worker.reap(now)
        if self._worker.busy or now < self._next:
            return False
        jobs = self._jobs()
        self._next = now + LOOK_S
        if jobs:
            self._worker.ask(jobs, deadline_s=_DEADLINE_S)
        else:
            self._worker.close()
        return False

    def close(self) -> None:
        self._worker.close()

    def _jobs(self) -> dict[int, float]:
        runs = self._runs().runs.values()
        return {run.job: run.started_s for run in runs if run.ended_s is None}

    def _take(self, answer: Answer, now: float) -> None:
        for found in answer.items:
            if isinstance(found, KilledStep):
                log.warning("slurmstepd was killed", job=found.job, step=found.step)
                self._report(found)
        if answer.error:
            self._next = now + _AFTER_PROBLEM_S
            if answer.error != self._problem:
                log.warning("killed slurmstepds are not looked for", why=answer.error)
        self._problem = answer.error

    def _open(self) -> Callable[[Any], Iterator[Any]]:
        from holdfast.slurm.cli import SlurmCli  # noqa: PLC0415 - only in the worker

        cluster, sockets = self._config.cluster, list[StepSockets]()

        def serve(jobs: dict[int, float]) -> Iterator[KilledStep]:
            if not sockets:
                slurm = SlurmCli(cluster.slurm.timeout_s, cluster.slurm.bin)
                folder = spool_folder(slurm.spool_folder(), self._node, socket.gethostname())
                sockets.append(StepSockets(folder, self._node, cluster.paths.procfs))
            return sockets[0].killed(jobs)

        return serve


def spool_folder(configured: str, node: str, host: str) -> Path:
    """SlurmdSpoolDir with the patterns of slurm.conf(5) replaced."""
    return Path(configured.replace("%n", node).replace("%h", host.partition(".")[0]))

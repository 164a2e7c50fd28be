"""Ending to_kill tasks, from the loop's side: asks a contained worker, logs what it did."""

from __future__ import annotations

import time
from collections.abc import Iterable

from holdfast.adapters.log import Log
from holdfast.config.schema import PathsConfig
from holdfast.findings import Finding
from slurm_hooks.agent.jobs.kill_tasks import KilledTask, TasksToKill, open_kill
from slurm_hooks.worker.worker import Worker

log = Log("agent")

_DEADLINE_S = 5.0


class TaskKiller:
    """At most one sweep at a time; a request that comes meanwhile is kept."""

    def __init__(self, paths: PathsConfig) -> None:
        token = paths.run / "stuck" / "sweep.json"
        self._worker = Worker("sweep", lambda: open_kill(paths.procfs), token=token, keep=False)
        self._next: TasksToKill | None = None

    @property
    def workers(self) -> list[Worker]:
        return [self._worker] if self._worker.busy else []

    def ask(self, to_kill: TasksToKill) -> None:
        """End the tasks that this fault has to_kill."""
        if self._worker.busy:
            self._next = to_kill
        else:
            self._worker.ask(to_kill, deadline_s=_DEADLINE_S)

    def turn(self) -> None:
        """Take an answer that is there."""
        answer = self._worker.take()
        if answer is None:
            self._worker.reap(time.monotonic())
            return
        for task in answer.items:
            if isinstance(task, KilledTask):
                log.warning("task ended", pid=task.pid, job=task.job, step=task.step)
        if not answer.complete:
            log.error("sweep of to_kill tasks", why=answer.error, evidence=answer.evidence)
        if self._next is not None:
            to_kill, self._next = self._next, None
            self.ask(to_kill)


def tasks_to_kill(findings: Iterable[Finding], uuids: dict[int, str]) -> TasksToKill:
    """The scope of these fatal findings: some GPUs, or the whole node where one names no GPU."""
    gpus: set[int] = set()
    for finding in findings:
        if finding.gpu is None:
            return TasksToKill()
        gpus.add(finding.gpu)
    known = {uuids[index] for index in gpus if index in uuids}
    return TasksToKill(
        gpus=frozenset(gpus), uuids=frozenset(known) if len(known) == len(gpus) else frozenset()
    )

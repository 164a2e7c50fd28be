"""Kills tasks that cannot continue, from the agent's loop: a contained worker does it, the loop
logs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.adapters.log import Log
from holdfast.config.schema import PathsConfig
from holdfast.findings import Finding
from slurm_hooks.agent.kill_tasks.affected_tasks import KilledTask, TasksToKill, open_kill
from slurm_hooks.worker.worker import Answer, Worker

log = Log("agent")

_DEADLINE_S = 8.0
"""Users that do not answer take two seconds, dumps and stacks three."""


class TaskKiller:
    """One request at a time; of the requests that come meanwhile the newest is kept."""

    def __init__(self, paths: PathsConfig) -> None:
        token = paths.run / "stuck" / "kill_tasks.json"
        worker = Worker("kill_tasks", lambda: open_kill(paths.procfs), token=token, keep=False)
        self._worker = worker
        self._next: TasksToKill | None = None

    @property
    def workers(self) -> list[Worker]:
        return [self._worker] if self._worker.busy else []

    def ask(self, to_kill: TasksToKill) -> None:
        """Kill the tasks that this fault affects."""
        if self._worker.busy:
            self._next = to_kill
        else:
            self._worker.ask(to_kill, deadline_s=_DEADLINE_S)

    @property
    def next_at(self) -> float:
        return float("inf")

    def fds(self) -> Iterator[tuple[int, int]]:
        return iter(())

    def turn(self, now: float) -> bool:
        """Take the answer if there is one."""
        answer = self._worker.take()
        if answer is None:
            self._worker.reap(now)
        else:
            self._take(answer)
        return False

    def close(self) -> None:
        self._worker.close()

    def _take(self, answer: Answer) -> None:
        for task in answer.items:
            if isinstance(task, KilledTask):
                log.warning(
                    "task killed",
                    pid=task.pid,
                    job=task.job,
                    step=task.step,
                    did=task.did,
                    stacks=task.stacks,
                )
        if not answer.complete:
            log.error("tasks not killed", why=answer.error, evidence=answer.evidence)
        if self._next is not None:
            to_kill, self._next = self._next, None
            self.ask(to_kill)


def tasks_to_kill(findings: Iterable[Finding], uuids: dict[int, str]) -> TasksToKill:
    """What these fatal findings affect: some GPUs, or the whole node if one of them names no GPU."""
    gpus: set[int] = set()
    for finding in findings:
        if finding.gpu is None:
            return TasksToKill()
        gpus.add(finding.gpu)
    known = {uuids[index] for index in gpus if index in uuids}
    return TasksToKill(
        gpus=frozenset(gpus), uuids=frozenset(known) if len(known) == len(gpus) else frozenset()
    )

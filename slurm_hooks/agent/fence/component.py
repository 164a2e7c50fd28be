"""The fence in the agent's loop: one contained worker for each user with jobs here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from holdfast.adapters.log import Log
from holdfast.config.kill_switch_files import ALL, FENCE, switches_off
from holdfast.policy.job.fence import HURRY_S, POLL_S, Order
from slurm_hooks.agent.component import NEVER
from slurm_hooks.agent.fence.keeper import Change, Keeper, Request
from slurm_hooks.agent.fence.stopped import Stopped
from slurm_hooks.agent.fence.tasks import Attempt
from slurm_hooks.agent.job_runs.runs import Runs
from slurm_hooks.settings.settings import Settings
from slurm_hooks.worker.worker import Answer, Worker

log = Log("agent")

_MOST_USERS = 16
_DEADLINE_S = 10.0
_AFTER_PROBLEM_S = 5.0
_SAID = {
    Order.END: "tasks killed: a newer attempt of their job has begun",
    Order.STOP: "tasks stopped: neither their journal nor slurmctld answers",
    Order.GO_ON: "tasks go on: no newer attempt of their job has begun",
}


@dataclass(slots=True)
class _User:
    worker: Worker
    due: float
    problem: str = ""
    stopped: frozenset[Attempt] = field(default_factory=frozenset)


class Fence:
    """``runs``: the jobs on this node, as the prologs reported them."""

    def __init__(self, config: Settings, runs: Callable[[], Runs]) -> None:
        self._config, self._runs = config, runs
        self._kept = Stopped(config.cluster.paths.run)
        self._users: dict[int, _User] = {}
        self._seen: Runs | None = None
        self._jobs: dict[int, frozenset[int]] = {}

    @property
    def workers(self) -> list[Worker]:
        return [user.worker for user in self._users.values() if user.worker.busy]

    @property
    def next_at(self) -> float:
        due = (user.due for user in self._users.values() if not user.worker.busy)
        return min(due, default=NEVER)

    def fds(self) -> Iterator[tuple[int, int]]:
        return iter(())

    def turn(self, now: float) -> bool:
        self._follow_runs(now)
        for uid, user in self._users.items():
            answer = user.worker.take()
            if answer is not None:
                self._take(uid, user, answer)
            user.worker.reap(now)
            if not user.worker.busy and now >= user.due:
                user.due = now + POLL_S
                request = Request(
                    jobs=self._jobs[uid],
                    stopped=user.stopped,
                    may_act=not switches_off(self._config.path) & {ALL, FENCE},
                )
                user.worker.ask(request, deadline_s=_DEADLINE_S)
        return False

    def close(self) -> None:
        for user in self._users.values():
            user.worker.close()

    def _follow_runs(self, now: float) -> None:
        runs = self._runs()
        if runs is self._seen:
            return
        self._seen = runs
        self._jobs = _by_user(runs)
        for uid in [uid for uid in self._users if uid not in self._jobs]:
            self._users.pop(uid).worker.close()
        for uid in list(self._jobs)[-_MOST_USERS:]:
            if uid not in self._users:
                worker = Worker(f"fence-{uid}", self._open(uid))
                stopped = self._kept.of(self._jobs[uid])
                self._users[uid] = _User(worker, now, stopped=stopped)

    def _take(self, uid: int, user: _User, answer: Answer) -> None:
        for item in answer.items:
            if isinstance(item, Change):
                log.warning(
                    _SAID[item.order],
                    job=item.attempt.job,
                    attempt=item.attempt.number,
                    processes=item.processes,
                )
            elif isinstance(item, frozenset):
                user.stopped = item
                self._keep()
            elif isinstance(item, float):
                user.due = time.monotonic() + max(item, HURRY_S)
        if answer.error:
            user.due = time.monotonic() + _AFTER_PROBLEM_S
            if answer.error != user.problem:
                log.info("attempts are not fenced", uid=uid, why=answer.error)
        user.problem = answer.error

    def _keep(self) -> None:
        problem = self._kept.keep(
            frozenset(one for user in self._users.values() for one in user.stopped)
        )
        if problem:
            log.error("stopped tasks not recorded", why=problem)

    def _open(self, uid: int) -> Callable[[], Callable[[Any], Iterator[Any]]]:
        paths, slurm = self._config.cluster.paths, self._config.cluster.slurm

        def open_() -> Callable[[Any], Iterator[Any]]:
            from holdfast.slurm.cli import SlurmCli  # noqa: PLC0415 - only in the worker
            from slurm_hooks.worker.as_user import become  # noqa: PLC0415

            become(uid, paths.procfs)
            return Keeper(uid, SlurmCli(slurm.timeout_s, slurm.bin), procfs=paths.procfs).serve

        return open_


def _by_user(runs: Runs) -> dict[int, frozenset[int]]:
    """uid → jobs. Tasks of a het job name its leader."""
    found: dict[int, set[int]] = {}
    for run in runs.runs.values():
        if run.uid is not None and run.ended_s is None:
            found.setdefault(run.uid, set()).update({run.job, run.family})
    return {uid: frozenset(jobs) for uid, jobs in found.items()}

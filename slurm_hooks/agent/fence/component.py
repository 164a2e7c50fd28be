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
from slurm_hooks.agent.fence.keeper import Change, Keeper, Request, Watching
from slurm_hooks.agent.fence.stopped import Stopped
from slurm_hooks.agent.fence.tasks import Attempt
from slurm_hooks.agent.job_runs.runs import Runs
from slurm_hooks.settings.settings import Settings
from slurm_hooks.worker.termination import GRACE_S
from slurm_hooks.worker.worker import Answer, Worker

log = Log("agent")

_MOST_WORKERS = 16
_TURN_S = 5.0
"""A worker whose user has no attempt here gives its place to that of another user after this time."""
_SAY_AGAIN_S = 3600.0
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
    began_at: float
    attempts: int | None = None
    stopped: frozenset[Attempt] = field(default_factory=frozenset)


class Fence:
    """``runs``: the jobs on this node, as the prologs reported them.

    There are ``_MOST_WORKERS`` at once. If more users have jobs here, the workers of those without an attempt
    take turns, so each user is looked at; what has an attempt keeps its worker.
    """

    def __init__(self, config: Settings, runs: Callable[[], Runs]) -> None:
        self._config, self._runs = config, runs
        self._kept = Stopped(config.cluster.paths.run)
        self._users: dict[int, _User] = {}
        self._leaving: dict[int, Worker] = {}
        """Workers that have not exited yet: a user can delay that, so no second one is started meanwhile."""
        self._seen: Runs | None = None
        self._jobs: dict[int, frozenset[int]] = {}
        self._looked_at: dict[int, float] = {}
        """When each user's last worker began."""
        self._problems: dict[int, str] = {}
        self._say_at = float("-inf")

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
        self._follow_runs()
        self._end_workers(now)
        self._start_workers(now)
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
        """The workers may be killed at once, and one that its user has stopped must be."""
        now = time.monotonic()
        workers = [user.worker for user in self._users.values()]
        for worker in workers:
            worker.close()
        for worker in (*workers, *self._leaving.values()):
            worker.reap(now)
            worker.reap(now + GRACE_S)

    def _follow_runs(self) -> None:
        runs = self._runs()
        if runs is self._seen:
            return
        self._seen = runs
        self._jobs = _by_user(runs)
        for uid in [uid for uid in self._users if uid not in self._jobs]:
            self._end_worker(uid)
        self._looked_at = {uid: at for uid, at in self._looked_at.items() if uid in self._jobs}
        self._problems = {uid: why for uid, why in self._problems.items() if uid in self._jobs}

    def _end_worker(self, uid: int) -> None:
        self._leaving[uid] = self._users.pop(uid).worker
        self._leaving[uid].close()

    def _end_workers(self, now: float) -> None:
        for worker in self._leaving.values():
            worker.reap(now)
        self._leaving = {uid: one for uid, one in self._leaving.items() if one.leaving}

    def _start_workers(self, now: float) -> None:
        waiting = [uid for uid in self._jobs if uid not in self._users and uid not in self._leaving]
        waiting.sort(key=lambda uid: self._looked_at.get(uid, float("-inf")))
        if len(waiting) > _MOST_WORKERS - len(self._users):
            self._make_room(len(waiting), now)
        for uid in waiting[: max(0, _MOST_WORKERS - len(self._users))]:
            worker = Worker(f"fence-{uid}", self._open(uid))
            stopped = self._kept.of(self._jobs[uid])
            self._users[uid] = _User(worker, now, now, stopped=stopped)
            self._looked_at[uid] = now

    def _make_room(self, waiting: int, now: float) -> None:
        """Ends the workers that have found no attempt, so that other users are looked at."""
        idle = [
            uid
            for uid, user in self._users.items()
            if user.attempts == 0 and not user.worker.busy and now - user.began_at >= _TURN_S
        ]
        for uid in idle[:waiting]:
            self._end_worker(uid)
        needed = sum(bool(user.attempts) for user in self._users.values())
        if needed >= _MOST_WORKERS and now >= self._say_at:
            self._say_at = now + _SAY_AGAIN_S
            log.warning(
                "attempts of some users are not fenced: too many users have tasks on this node",
                users=len(self._jobs),
                most=_MOST_WORKERS,
                waiting=waiting,
            )

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
            elif isinstance(item, Watching):
                user.attempts = item.attempts
            elif isinstance(item, float):
                user.due = time.monotonic() + max(item, HURRY_S)
        if answer.error:
            user.attempts = user.attempts or 0
            user.due = time.monotonic() + _AFTER_PROBLEM_S
            if answer.error != self._problems.get(uid, ""):
                log.info("attempts are not fenced", uid=uid, why=answer.error)
        self._problems[uid] = answer.error

    def _keep(self) -> None:
        waiting = (jobs for uid, jobs in self._jobs.items() if uid not in self._users)
        problem = self._kept.keep(
            frozenset(one for user in self._users.values() for one in user.stopped)
            | self._kept.of(frozenset().union(*waiting))
        )
        if problem:
            log.error("stopped tasks not recorded", why=problem)

    def _open(self, uid: int) -> Callable[[], Callable[[Any], Iterator[Any]]]:
        paths, slurm = self._config.cluster.paths, self._config.cluster.slurm

        def open_() -> Callable[[Any], Iterator[Any]]:
            from holdfast.slurm.cli import SlurmCli  # noqa: PLC0415 - only in the worker
            from slurm_hooks.agent.fence.slurm_as_root import SlurmAsRoot  # noqa: PLC0415
            from slurm_hooks.worker.as_user import NotPossible, become, groups_of  # noqa: PLC0415

            groups = groups_of(uid, paths.procfs)
            asked = SlurmAsRoot(SlurmCli(slurm.timeout_s, slurm.bin))
            try:
                become(uid, groups)
            except NotPossible:
                asked.close()
                raise
            return Keeper(uid, asked, procfs=paths.procfs).serve

        return open_


def _by_user(runs: Runs) -> dict[int, frozenset[int]]:
    """uid → jobs. Tasks of a het job name its leader."""
    found: dict[int, set[int]] = {}
    for run in runs.runs.values():
        if run.uid is not None and run.ended_s is None:
            found.setdefault(run.uid, set()).update({run.job, run.family})
    return {uid: frozenset(jobs) for uid, jobs in found.items()}

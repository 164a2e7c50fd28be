"""Tells people what happens to jobs: notices of launchers, by mail or webhook as the site chose.

Launchers never wait for it. What cannot be delivered is tried again and then logged; a restart of the
agent loses what waits.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from holdfast.adapters.log import Log
from slurm_hooks.agent.component import NEVER
from slurm_hooks.agent.notices.message import Request
from slurm_hooks.job.notice import Notice
from slurm_hooks.settings.settings import Settings
from slurm_hooks.worker.worker import Worker

log = Log("agent")

_PAUSES_S = (60.0, 300.0)
"""Before the second and the third try."""
_MAX_WAITING = 256
_HOUR_S = 3600.0
_MAX_USERS = 1024
_OPEN_S = 20.0
"""For the start of the worker and for the owner's name, which a directory service may answer."""


@dataclass(order=True, slots=True)
class _Waiting:
    due: float
    order: int
    request: Request = field(compare=False)
    tries: int = field(compare=False, default=0)


class Notifier:
    """One notice after the other, in a contained worker. ``wall``: epoch seconds."""

    def __init__(self, node: str, config: Settings, wall: Callable[[], float] = time.time) -> None:
        self._node, self._config, self._wall = node, config, wall
        self._worker = Worker("notices", self._open, keep=False)
        self._waiting: list[_Waiting] = []
        self._under_way: _Waiting | None = None
        self._order = itertools.count()
        self._told: dict[int, deque[float]] = {}
        self._limited: set[int] = set()

    @property
    def workers(self) -> list[Worker]:
        return [self._worker] if self._worker.busy else []

    @property
    def next_at(self) -> float:
        return self._waiting[0].due if self._waiting and not self._worker.busy else NEVER

    def fds(self) -> Iterator[tuple[int, int]]:
        return iter(())

    def take(self, notice: Notice) -> str:
        """Why the notice is not told, or an empty text. A notice that the site did not ask for is taken
        and forgotten."""
        config = self._config.notify
        if notice.event not in config.told:
            return ""
        now = time.monotonic()
        if not self._may_tell(notice.owner, now):
            return "too many notices of this user"
        for channel in config.channels:
            if len(self._waiting) >= _MAX_WAITING:
                return "too many notices are waiting"
            request = Request(
                notice=notice,
                channel=channel,
                cluster=self._config.cluster.cluster,
                node=self._node,
                at=self._wall(),
            )
            heapq.heappush(self._waiting, _Waiting(now, next(self._order), request))
        return ""

    def _may_tell(self, uid: int, now: float) -> bool:
        told = self._told.setdefault(uid, deque())
        while told and now - told[0] > _HOUR_S:
            told.popleft()
        if len(told) >= self._config.notify.max_per_hour:
            if uid not in self._limited:
                self._limited.add(uid)
                log.warning("notices of a user are no longer sent", uid=uid, limit="max_per_hour")
            return False
        self._limited.discard(uid)
        told.append(now)
        if len(self._told) > _MAX_USERS:
            self._told = {uid: told}
        return True

    def turn(self, now: float) -> bool:
        """Take an answer; send what is due. Never raises."""
        answer = self._worker.take()
        if answer is not None and self._under_way is not None:
            done, self._under_way = self._under_way, None
            problem = answer.error or next((str(item) for item in answer.items), "")
            self._settle(done, problem, now)
        if not self._worker.busy and self._waiting and self._waiting[0].due <= now:
            due = heapq.heappop(self._waiting)
            if self._config.may_act():
                self._under_way = due
                deadline_s = self._config.notify.timeout_s + _OPEN_S
                self._worker.ask(due.request, deadline_s=deadline_s)
        self._worker.reap(now)
        return False

    def _settle(self, done: _Waiting, problem: str, now: float) -> None:
        notice = done.request.notice
        what = {"job": notice.job, "what": notice.event.value, "by": done.request.channel}
        if not problem:
            log.info("notice sent", **what)
            return
        done.tries += 1
        if done.tries > len(_PAUSES_S):
            log.error("notice not sent", why=problem, **what)
            return
        if done.tries == 1:
            log.warning("notice not sent yet", why=problem, **what)
        done.due = now + _PAUSES_S[done.tries - 1]
        heapq.heappush(self._waiting, done)

    def close(self) -> None:
        self._worker.close()

    def _open(self) -> Callable[[Any], Iterator[Any]]:
        from slurm_hooks.agent.notices import delivery  # noqa: PLC0415 - TLS and HTTP: only in the worker

        return delivery.open_delivery(self._config.notify)

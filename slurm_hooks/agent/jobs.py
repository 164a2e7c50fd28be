"""Looks after jobs that have to restart once their launcher is gone: wakes, and asks
``job.afterlife``.

That code talks to Slurm and may read the shared file system, so it runs in a contained worker like
all else that may block. The worker stays while there is something to do: what it learnt in one step
it needs in the next.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from holdfast.adapters.log import Log
from slurm_hooks.contain import Answer, Worker
from slurm_hooks.probes import inotify
from slurm_hooks.settings import Settings

log = Log("agent")

_WATCHED = inotify.CREATE | inotify.MOVED_TO | inotify.DELETE
_SWEEP_S = 30.0
"""A look now and then even when nothing woke us: an event may be lost, a worker may have died."""
_DEADLINE_S = 30.0
_LINES, _LINES_S = 60, 60.0
"""Of the log in so many seconds: anybody may put files into ``jobs/``, and each may be worth a line."""


class Jobs:
    """``fd`` turns readable when a job's marker or an epilog's note appears."""

    def __init__(self, config: Settings) -> None:
        self._config = config
        run = config.cluster.paths.run
        self._markers, self._ended = run / "jobs", run / "ended"
        _folder(self._markers, 0o1777)
        _folder(self._ended, 0o755)
        self._watch = inotify.Inotify()
        for folder in (self._markers, self._ended):
            self._watch.add(folder, _WATCHED)
        self._worker = Worker("jobs", self._open)
        self._next_look = 0.0
        self._said = ""
        self._woken = False
        self._told, self._untold, self._told_since = 0, 0, float("-inf")

    @property
    def fd(self) -> int:
        return int(self._watch.fd)

    @property
    def workers(self) -> list[Worker]:
        return [self._worker] if self._worker.busy else []

    @property
    def next_at(self) -> float:
        return self._next_look

    def turn(self, now: float) -> None:
        """Take an answer, start a step where one is due."""
        woken = bool(self._watch.read())
        answer = self._worker.take()
        if answer is not None:
            self._take(answer, now)
        if self._worker.busy:
            self._woken = self._woken or woken
            return
        if woken or self._woken:
            self._next_look, self._woken = now, False
        if now >= self._next_look:
            self._look(now)

    def _take(self, answer: Answer, now: float) -> None:
        if answer.error and answer.error != self._said:
            log.error("jobs that have to restart", why=answer.error, evidence=answer.evidence)
        self._said = answer.error
        for item in answer.items:
            if isinstance(item, str):
                self._tell(item, now)
            elif isinstance(item, float):
                self._next_look = now + max(item, self._config.agent.jobs_interval_s)

    def _tell(self, text: str, now: float) -> None:
        if now - self._told_since >= _LINES_S:
            if self._untold:
                log.warning("jobs: more happened than is told", lines=self._untold)
            self._told, self._untold, self._told_since = 0, 0, now
        if self._told < _LINES:
            self._told += 1
            log.info("job", did=text)
        else:
            self._untold += 1

    def _look(self, now: float) -> None:
        if not (_anything(self._markers) or _anything(self._ended)):
            self._next_look = now + _SWEEP_S
            self._worker.close()
            return
        self._next_look = now + max(self._config.agent.jobs_interval_s, 1.0 if self._said else 0.0)
        self._worker.ask(None, deadline_s=_DEADLINE_S)

    def close(self) -> None:
        self._worker.close()
        self._watch.close()

    def _open(self) -> Callable[[Any], Iterator[Any]]:
        from slurm_hooks.agent import aftercare  # noqa: PLC0415 - heavy, and only in the worker

        return aftercare.open_steps(self._config)


def _folder(path: Path, mode: int) -> None:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)


def _anything(folder: Path) -> bool:
    with os.scandir(folder) as entries:
        return any(not entry.name.startswith(".") for entry in entries)

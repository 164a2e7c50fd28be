"""Jobs that have to restart once their launcher is gone, from the agent's loop: stores the markers
that launchers send, and runs the steps of ``requeue`` when one is due.

A step calls Slurm and may read a shared file system, so it runs in a contained worker. The worker
is kept while there are jobs to track, because each step needs the state of the last one.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator, Mapping, Set
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.adapters.log import Log
from holdfast.adapters.reserved_space import ReservedSpace
from slurm_hooks.agent.job_runs.runs import Runs
from slurm_hooks.agent.jobs import old_markers
from slurm_hooks.agent.jobs.sockets import JobSockets
from slurm_hooks.job import marker as markers
from slurm_hooks.job.marker import Marker
from slurm_hooks.job.notice import Notice
from slurm_hooks.probes import inotify
from slurm_hooks.settings.settings import Settings
from slurm_hooks.worker.worker import Answer, Worker

log = Log("agent")

_RESCAN_S = 30.0
"""The folders are read at least this often: an inotify event may be lost, a worker may have exited.
"""
_DEADLINE_S = 30.0
_LINES, _LINES_S = 60, 60.0
"""At most so many log lines in so many seconds: users send markers, and each may cause a line."""
_MAX_MARKERS = 1024
_RESERVED = 16
"""Markers that can be written even if /run is full."""


class JobWatcher:
    """``runs`` returns the runs of jobs on this node, as the prologs reported them. ``tell`` takes the
    notices of launchers."""

    def __init__(
        self,
        config: Settings,
        runs: Callable[[], Runs],
        tell: Callable[[Notice], str] = lambda _: "",
    ) -> None:
        self._config, self._runs, self._seen = config, runs, Runs()
        run = self._run = config.cluster.paths.run
        self._markers, self._ended = markers.folder(run), markers.ended_folder(run)
        self._old = old_markers.put_aside(self._markers)
        _folder(self._markers, 0o700)
        _folder(self._ended, 0o755)
        self._reserve = ReservedSpace(
            self._markers, "marker", size=markers.MAX_BYTES, count=_RESERVED
        )
        self._reserve.fill()
        self._sockets = JobSockets(run, self._keep, tell)
        self._watch = inotify.Inotify()
        self._watch.add(self._ended, inotify.CREATE | inotify.MOVED_TO)
        self._worker = Worker("jobs", self._open)
        self._cleaner = Worker("old_markers", old_markers.open_removal, keep=False)
        self._next_look = 0.0
        self._last_error = ""
        self._woken = False
        self._logged, self._suppressed, self._logged_since = 0, 0, float("-inf")

    def fds(self) -> Iterator[tuple[int, int]]:
        """Readable when an epilog left a note, or a launcher sends something."""
        yield int(self._watch.fd), select.POLLIN
        yield from self._sockets.fds()

    @property
    def workers(self) -> list[Worker]:
        return [worker for worker in (self._worker, self._cleaner) if worker.busy]

    @property
    def next_at(self) -> float:
        return min(self._next_look, self._sockets.next_at)

    def turn(self, now: float) -> bool:
        """Serve launchers, take an answer, start a step if one is due."""
        self._serve()
        self._sockets.turn(now)
        if self._cleaner.busy:
            self._cleaned()
        self._cleaner.reap(now)
        woken = bool(self._watch.read())
        answer = self._worker.take()
        if answer is not None:
            self._take(answer, now)
        if self._worker.busy:
            self._woken = self._woken or woken
            return False
        if woken or self._woken:
            self._next_look, self._woken = now, False
        if now >= self._next_look:
            self._look(now)
        return False

    def _serve(self) -> None:
        """Keep one socket open for each user with a job here."""
        runs = self._runs()
        if runs is self._seen:
            return
        self._seen = runs
        here: dict[int, set[int]] = {}
        for run in runs.runs.values():
            if run.uid is not None and run.ended_s is None:
                here.setdefault(run.uid, set()).update((run.job, run.family))
        if self._old:
            self._take_over(self._old, here)
            self._old = []
        self._sockets.serve({uid: frozenset(jobs) for uid, jobs in here.items()})

    def _take_over(self, folders: list[Path], here: Mapping[int, Set[int]]) -> None:
        for marker in old_markers.of_jobs(folders, here):
            if not (self._markers / f"{marker.job}.json").exists():
                self._keep(marker)
        self._cleaner.ask([str(folder) for folder in folders], deadline_s=_DEADLINE_S)

    def _keep(self, marker: Marker) -> str:
        """Store the marker; why it cannot be stored, or an empty text."""
        path = self._markers / f"{marker.job}.json"
        known = markers.read(path)
        if known == marker:
            return ""
        if known is None and len(os.listdir(self._markers)) >= _MAX_MARKERS:  # noqa: PTH208
            return "too many markers on this node"
        try:
            markers.store(self._run, marker, partial(self._reserve.write, mode=0o600))
        except OSError as error:
            return error.strerror or str(error)
        self._woken = True
        return ""

    def _cleaned(self) -> None:
        answer = self._cleaner.take()
        if answer is not None and answer.error:
            log.error("old markers not removed", why=answer.error)

    def _take(self, answer: Answer, now: float) -> None:
        if answer.error and answer.error != self._last_error:
            log.error("requeue failed", why=answer.error, evidence=answer.evidence)
        self._last_error = answer.error
        for item in answer.items:
            if isinstance(item, str):
                self._log_line(item, now)
            elif isinstance(item, float):
                self._next_look = now + max(item, self._config.agent.jobs_interval_s)

    def _log_line(self, text: str, now: float) -> None:
        if now - self._logged_since >= _LINES_S:
            if self._suppressed:
                log.warning("job log lines suppressed", lines=self._suppressed)
            self._logged, self._suppressed, self._logged_since = 0, 0, now
        if self._logged < _LINES:
            self._logged += 1
            log.info("job", action=text)
        else:
            self._suppressed += 1

    def _look(self, now: float) -> None:
        if not (_anything(self._markers) or _anything(self._ended)):
            self._next_look = now + _RESCAN_S
            self._worker.close()
            return
        self._next_look = now + max(
            self._config.agent.jobs_interval_s, 1.0 if self._last_error else 0.0
        )
        self._worker.ask(None, deadline_s=_DEADLINE_S)

    def close(self) -> None:
        self._sockets.close()
        self._worker.close()
        self._cleaner.close()
        self._watch.close()

    def _open(self) -> Callable[[Any], Iterator[Any]]:
        from slurm_hooks.agent.jobs import requeue_worker  # noqa: PLC0415 - heavy, and only in the worker

        return requeue_worker.open_steps(self._config)


def _folder(path: Path, mode: int) -> None:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)


def _anything(folder: Path) -> bool:
    with os.scandir(folder) as entries:
        return any(not entry.name.startswith(".") for entry in entries)

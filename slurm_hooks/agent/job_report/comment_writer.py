"""Writes the jobs' comments through a contained worker, one at a time, each only when it changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.adapters.log import Log
from holdfast.records.incidents import Incident
from slurm_hooks.agent.job_report.comment_result import ALREADY, NOT_CONFIRMED, WRITTEN
from slurm_hooks.settings.settings import Settings
from slurm_hooks.worker.worker import Worker

log = Log("agent")

_CALLS = 10
"""The most Slurm commands for one comment, if other nodes' agents write it at the same time."""
_AGAIN_S = 5.0
"""Seconds between two writes that only change a count."""
_CONFIRM_S = 3.0
"""After a write the comment is read once more: an agent that had read it before may have written it since,
as the one that names the job's journal."""
_MAX_WRITTEN = 512

Entries = tuple[Incident, ...]


class CommentWriter:
    """``submit`` may be called at any time; only the newest entries of a job are written."""

    def __init__(self, config: Settings) -> None:
        self._config = config
        self.worker = Worker("job_comments", self._open, keep=False)
        self._waiting: dict[int, Entries] = {}
        self._written: dict[int, tuple[Entries, float]] = {}
        self._confirm_at: dict[int, float] = {}
        self._now: tuple[int, Entries] | None = None
        self._retry_at = 0.0

    @property
    def next_at(self) -> float:
        """Monotonic time at which something is due."""
        times = [*map(self._due, self._waiting), *self._confirm_at.values()]
        if self.worker.busy or not times:
            return float("inf")
        return max(self._retry_at, min(times))

    def submit(self, job: int, entries: Entries) -> None:
        """Have these entries written into the job's comment."""
        written = self._written.get(job)
        if entries and (written is None or written[0] != entries):
            self._waiting[job] = entries

    def turn(self, now: float) -> None:
        """Take an answer, start what is due."""
        answer = self.worker.take()
        if answer is not None and self._now is not None:
            self._take(answer.error, answer.items, now)
        self.worker.reap(now)
        if self.worker.busy or now < self._retry_at:
            return
        due = [job for job in self._waiting if self._due(job) <= now]
        due += [job for job, at in self._confirm_at.items() if at <= now]
        if due:
            self._ask(due[0])

    def close(self) -> None:
        self.worker.close()

    def _due(self, job: int) -> float:
        """At once for new entries; a higher count alone can wait."""
        if job not in self._written:
            return 0.0
        entries, at = self._written[job]
        if {entry.key for entry in entries} != {entry.key for entry in self._waiting[job]}:
            return 0.0
        return at + _AGAIN_S

    def _ask(self, job: int) -> None:
        from slurm_hooks.agent.job_report.admin_comment import CommentRequest  # noqa: PLC0415 - rarely needed

        self._confirm_at.pop(job, None)
        entries = self._waiting.pop(job, None) or self._written[job][0]
        self._now = (job, entries)
        deadline_s = self._config.cluster.slurm.timeout_s * _CALLS
        self.worker.ask(CommentRequest(job=job, entries=entries), deadline_s=deadline_s)

    def _take(self, error: str, items: tuple[Any, ...], now: float) -> None:
        assert self._now is not None  # noqa: S101 - asked before an answer came
        job, entries = self._now
        self._now = None
        if error:
            log.error("job comment not written", job=job, why=error)
            self._waiting.setdefault(job, entries)
            self._retry_at = now + self._config.agent.act_retry_s
            return
        before, action = self._written.get(job), " ".join(map(str, items))
        confirmed = action == ALREADY and before is not None and before[0] == entries
        if not confirmed:
            log.info("job comment", job=job, action=action)
        if action in (WRITTEN, NOT_CONFIRMED):
            self._confirm_at[job] = now + _CONFIRM_S
        self._written[job] = (entries, now)
        while len(self._written) > _MAX_WRITTEN:
            oldest = next(iter(self._written))
            del self._written[oldest]
            self._confirm_at.pop(oldest, None)

    def _open(self) -> Callable[[Any], Any]:
        from holdfast.slurm.cli import SlurmCli  # noqa: PLC0415 - only in the worker
        from slurm_hooks.agent.job_report import admin_comment  # noqa: PLC0415 - only in the worker

        slurm = self._config.cluster.slurm
        return admin_comment.open_comments(SlurmCli(slurm.timeout_s, slurm.bin))

"""Publishes what is known of a run: the report file first, then the job's comment in Slurm."""

from __future__ import annotations

import time

from holdfast.adapters.log import Log
from holdfast.history.event import JOB_AFFECTED
from holdfast.records.incidents import Attribution
from holdfast.vocabulary import Mode
from slurm_hooks.agent.component import Note
from slurm_hooks.agent.job_report import files, report
from slurm_hooks.agent.job_report.comment_writer import CommentWriter
from slurm_hooks.agent.job_report.report import Leftover, Place, Remains
from slurm_hooks.agent.job_runs.runs import JobRun
from slurm_hooks.node import machine
from slurm_hooks.settings.settings import Settings
from slurm_hooks.worker.worker import Worker

log = Log("agent")

NOTHING = Remains()


class Reporter:
    """One node's reports. ``note`` records an event in the node's history."""

    def __init__(self, node: str, boot_id: str, config: Settings, note: Note | None) -> None:
        self._node, self._boot_id, self._config, self._note = node, boot_id, config, note
        self._comments = CommentWriter(config)

    @property
    def worker(self) -> Worker:
        return self._comments.worker

    @property
    def next_at(self) -> float:
        return self._comments.next_at

    def turn(self, now: float) -> None:
        self._comments.turn(now)

    def close(self) -> None:
        self._comments.close()

    def publish(self, run: JobRun, remains: Remains = NOTHING) -> None:
        """Write the run's report and have its comment written."""
        place = self._place()
        document = report.document(run, remains, place)
        try:
            files.write_report(self._config.cluster.paths.run, document)
        except OSError as error:
            log.error("job report not written", job=run.job, why=error)
        if self._config.may_act():
            self._comments.submit(run.job, report.evidence(run, remains.left, place))

    def note_incidents(self, run: JobRun, left: tuple[Leftover, ...]) -> None:
        """Record in the history that a fault of this node affected the ended run."""
        entries = report.evidence(run, left, self._place())
        incidents = [entry for entry in entries if entry.attribution is Attribution.NODE]
        if incidents and self._note is not None:
            first = incidents[0]
            on_gpu = (xid.uuid for xid in run.xids if xid.gpu == first.gpu and xid.uuid)
            self._note(
                JOB_AFFECTED,
                code=first.code,
                gpu=first.gpu,
                gpu_uuid=next(on_gpu, None) if first.gpu is not None else None,
                detail=f"job {run.job}: {', '.join(dict.fromkeys(e.code for e in incidents))}",
                job=run.job,
                run=run.restarts,
            )

    def _place(self) -> Place:
        table = self._config.active()
        acting = {name for name, check in table.items() if check.mode is not Mode.OBSERVE}
        return Place(
            node=self._node,
            boot_id=self._boot_id,
            epoch_of_boot=time.time() - machine.uptime_s(self._config.cluster.paths.procfs),
            observe_only=frozenset(self._config.checks) - acting,
        )

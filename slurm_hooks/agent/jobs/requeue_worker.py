"""The worker's side of ``watcher``: one ``Requeuer``, kept as long as there are jobs to track."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from holdfast.records import verdict_file
from holdfast.slurm.reservations import SlurmMaintenance
from holdfast.vocabulary import Severity, Status
from slurm_hooks.agent.jobs.requeue import Requeuer
from slurm_hooks.node import machine, slurmstepds
from slurm_hooks.settings.settings import Settings

_BATCH = "batch"


def open_steps(config: Settings) -> Callable[[Any], Iterator[Any]]:
    """Answers each request with one step: the lines that it logged, then the seconds until the next
    step."""
    slurm = SlurmMaintenance(config.cluster.slurm.timeout_s, config.cluster.slurm.bin)
    lines: list[str] = []
    paths = config.cluster.paths
    requeuer = Requeuer(
        slurm,
        paths.run,
        config.job,
        log=lines.append,
        work_lost=lambda: work_lost(paths.run, paths.procfs),
        script_runs=lambda job: (job, _BATCH) in slurmstepds.steps(paths.procfs),
    )

    def serve(_request: object) -> Iterator[Any]:
        now = time.monotonic()
        requeuer.step(now)
        yield from lines
        lines.clear()
        wait_s = requeuer.wait_s(time.monotonic())
        if wait_s is not None:
            yield float(wait_s)

    return serve


def work_lost(run: Path, procfs: Path) -> bool:
    """Whether the node's fresh verdict has a fatal finding, so that jobs here cannot continue, and
    its agent has drained it."""
    try:
        boot_id, uptime_s = machine.boot_id(procfs), machine.uptime_s(procfs)
    except (OSError, ValueError, IndexError):
        return False
    verdict = verdict_file.read(verdict_file.path_in(run), boot_id=boot_id, uptime_s=uptime_s)
    if verdict.status is not Status.BAD or not verdict.own_drain:
        return False
    fatal = Severity.FATAL.name.lower()
    return any(finding.get("severity") == fatal for finding in verdict.findings)

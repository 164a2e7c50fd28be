"""The worker's side of ``jobs``: one ``Requeuer`` that lives as long as there are jobs to look
after.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from holdfast.cli.explain_files import local_verdict
from holdfast.slurm.cli import SlurmCli
from holdfast.vocabulary import Severity
from slurm_hooks.agent.jobs.requeue import Requeuer
from slurm_hooks.settings.settings import Settings


def open_steps(config: Settings) -> Callable[[Any], Iterator[Any]]:
    """Answers each request with one step: the lines that it logged, then seconds until the next."""
    slurm = SlurmCli(config.cluster.slurm.timeout_s, config.cluster.slurm.bin)
    said: list[str] = []
    paths = config.cluster.paths
    requeuer = Requeuer(
        slurm,
        paths.run,
        config.job,
        log=said.append,
        work_lost=lambda: work_lost(paths.run, paths.procfs),
    )

    def serve(_request: object) -> Iterator[Any]:
        now = time.monotonic()
        requeuer.step(now)
        yield from said
        said.clear()
        wait_s = requeuer.wait_s(time.monotonic())
        if wait_s is not None:
            yield float(wait_s)

    return serve


def work_lost(run: Path, procfs: Path) -> bool:
    """Whether work on this node is lost by its verdict, and its agent has drained it."""
    verdict = local_verdict(run, procfs, None)
    if verdict is None or verdict["status"] != "bad" or not verdict["decision"].get("made"):
        return False
    fatal = Severity.FATAL.name.lower()
    return any(found.get("severity") == fatal for found in verdict["findings"])

"""The worker's side of ``jobs``: one ``Afterlife`` that lives as long as there are jobs to look
after.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from holdfast.adapters.slurm_cli import SlurmCli
from slurm_hooks.job.afterlife import Afterlife
from slurm_hooks.settings import Settings


def open_steps(config: Settings) -> Callable[[Any], Iterator[Any]]:
    """Answers each request with one step: the lines that it logged, then seconds until the next."""
    slurm = SlurmCli(config.cluster.slurm.timeout_s, config.cluster.slurm.bin)
    said: list[str] = []
    afterlife = Afterlife(slurm, config.cluster.paths.run, config.job, log=said.append)

    def serve(_request: object) -> Iterator[Any]:
        now = time.monotonic()
        afterlife.step(now)
        yield from said
        said.clear()
        wait_s = afterlife.wait_s(time.monotonic())
        if wait_s is not None:
            yield float(wait_s)

    return serve

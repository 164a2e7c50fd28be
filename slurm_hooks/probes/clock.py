"""This node's clock against slurmctld's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from holdfast.slurm.client import SlurmClient
from slurm_hooks.facts import ClockFacts

_CONTROLLER_STEP_S = 1.0
"""slurmctld tells whole seconds."""


def read(slurm: SlurmClient) -> ClockFacts:
    """One comparison. slurmctld's true time lies within a second after what it said, ours within
    the call.
    """
    began = time.time()
    said = slurm.clock().timestamp()
    ended = time.time()
    earliest, latest = began - (said + _CONTROLLER_STEP_S), ended - said
    return ClockFacts(skew_s=(earliest + latest) / 2, error_s=(latest - earliest) / 2)


def open_probe(slurm: SlurmClient) -> Callable[[object], Iterator[ClockFacts]]:
    """Answers with a comparison. Raises CommandError where slurmctld does not say."""

    def serve(_request: object) -> Iterator[ClockFacts]:
        yield read(slurm)

    return serve

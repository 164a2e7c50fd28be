"""This node's clock against slurmctld's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from holdfast.slurm.client import SlurmClient
from slurm_hooks.facts import ClockFacts

_CONTROLLER_STEP_S = 1.0
"""slurmctld reports whole seconds."""


def read(slurm: SlurmClient) -> ClockFacts:
    """One comparison. slurmctld's time is up to a second later than reported; this node's time is
    between the start and the end of the call.
    """
    began = time.time()
    reported = slurm.clock().timestamp()
    ended = time.time()
    earliest, latest = began - (reported + _CONTROLLER_STEP_S), ended - reported
    return ClockFacts(skew_s=(earliest + latest) / 2, error_s=(latest - earliest) / 2)


def open_probe(slurm: SlurmClient) -> Callable[[object], Iterator[ClockFacts]]:
    """Answers with a comparison. Raises CommandError if slurmctld does not answer."""

    def serve(_request: object) -> Iterator[ClockFacts]:
        yield read(slurm)

    return serve

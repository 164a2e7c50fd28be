"""Who ended a drain of Holdfast: a person, or a slurmctld that restarted without it."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from holdfast.errors import CommandError
from holdfast.policy.ownership import DrainRecord, PastDrain, ended_before, same_slurmctld
from holdfast.vocabulary import SlurmName


class Accounting(Protocol):
    """What accounting knows (``SlurmCli`` has it)."""

    def past_drains(self, name: SlurmName, since: datetime) -> list[PastDrain]: ...


def by_person(
    slurm: Accounting, name: SlurmName, record: DrainRecord, slurmctld_at: datetime
) -> bool:
    """Whether there is evidence that a person ended the drain: the slurmctld that had it still
    runs, or accounting has its end from before slurmctld started at ``slurmctld_at`` (decision
    026).
    """
    if record.at is None:
        return False
    if same_slurmctld(record, slurmctld_at):
        return True
    try:
        return ended_before(slurm.past_drains(name, record.at), record, slurmctld_at)
    except CommandError:  # no accounting, or it does not answer
        return False

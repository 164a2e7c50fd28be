"""Names a job's journal in its AdminComment, where ``holdfast explain`` finds it.

Agents of other nodes write incidents into the same comment, so one of two writes at the same moment is
lost. The comment is read again each time the job is looked at, and a missing path is written again.
"""

from __future__ import annotations

from typing import Protocol

from holdfast.errors import Refused
from holdfast.records import incidents
from holdfast.slurm.client import SlurmJob
from slurm_hooks.job.marker import Marker

_MAX_WRITES = 3
"""For one job, so that nobody's comment is written for ever."""


class CommentClient(Protocol):
    """The call of Slurm that is used here. Raises CommandError."""

    def admin_comment(self, job: SlurmJob, text: str) -> None: ...


class JournalComment:
    """``looked_at`` is true once the comment of the marker's job was seen, or need not be."""

    def __init__(self, slurm: CommentClient) -> None:
        self._slurm = slurm
        self._writes: dict[int, int] = {}

    def looked_at(self, marker: Marker) -> bool:
        return not marker.journal or marker.job in self._writes

    def forget(self, job: int) -> None:
        self._writes.pop(job, None)

    def is_missing(self, marker: Marker, job: SlurmJob) -> bool:
        """Whether the path has to be written."""
        writes = self._writes.setdefault(marker.job, 0)
        return writes < _MAX_WRITES and bool(_comment(marker, job.admin_comment))

    def write(self, marker: Marker, job: SlurmJob) -> None:
        """Write the path into the comment of ``job``, as it was read before. Raises Unavailable."""
        writes = self._writes.get(marker.job, 0)
        try:
            self._slurm.admin_comment(job, _comment(marker, job.admin_comment))
        except Refused:  # the job has ended
            writes = _MAX_WRITES
        self._writes[marker.job] = writes + 1


def _comment(marker: Marker, there: str) -> str:
    """The comment with the path; empty: nothing to write."""
    if not marker.journal or not incidents.may_write(there):
        return ""
    if incidents.journal_in(there) == marker.journal:
        return ""
    text = incidents.render(incidents.parse(there), marker.journal)
    return "" if text == there.strip() else text

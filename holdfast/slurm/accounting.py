"""A node's past drains from accounting (``sacctmgr show event``; seen on 24.11.5 and 26.05.5).

slurmctld sends each drain to slurmdbd when it is set, including one that a later write replaces. Of several
in one second only the last one is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from holdfast.policy.ownership import PastDrain
from holdfast.slurm.parse import epoch
from holdfast.vocabulary import SlurmName

_FIELDS = "TimeStart,TimeEnd,State,User,Reason"
# A reason may contain line breaks and bars, so it is the last field; a row begins with its two times.
_BOOKKEEPING = "node-update"
"""The reason that slurmdbd itself writes when a node's instance or other facts change."""
_ROW = re.compile(r"^([0-9]+)\|([0-9]+|Unknown)\|([^|\n]*)\|([^|\n]*)\|", re.MULTILINE)


def argv(name: SlurmName, since: datetime) -> list[str]:
    return [
        "sacctmgr", "--noheader", "--parsable2", "show", "event", f"nodes={name}",
        f"start=uts{int(since.timestamp())}", f"format={_FIELDS}",
    ]  # fmt: skip


def past_drains(text: str) -> Iterator[PastDrain]:
    """The events in which the node had the DRAIN flag, in the order of the text."""
    rows = list(_ROW.finditer(text))
    ends = [row.start() for row in rows[1:]] + [len(text)]
    for row, end in zip(rows, ends, strict=False):
        start_at = epoch(row[1])
        reason = text[row.end() : end].removesuffix("\n")
        if start_at is None or "DRAIN" not in row[3] or reason == _BOOKKEEPING:
            continue
        yield PastDrain(
            start_at=start_at,
            end_at=epoch(row[2]),
            user=row[4],
            reason=reason,
            replaced=any(other[1] == row[2] for other in rows if other is not row),
        )

"""The cgroup that slurmstepd makes for a step, as ``/proc/PID/cgroup`` and the kernel's log name it.

* version 1, and version 2 up to Slurm 25.11: ``…/job_4711/step_0/…``
* version 2 from 26.05 on: ``…/s2Z1M83PR0SW00/step_0/…``, with the job's SLUID, unless cgroup.conf has
  ``CgroupJobIdPaths=yes``

With version 2 slurmstepd itself is in ``step_0/slurm``, the tasks are in ``step_0/user/…`` (seen on 26.05.5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_STEP = re.compile(
    r"/(?:job_([0-9]{1,10})|(s[0-9A-HJKMNP-TV-Z]{13}))(?:/step_([A-Za-z0-9]+)(/user(?=/|$))?)?(?=/|$)"
)
"""A SLUID has the digits of Crockford's base 32. Begins with "/", so that long paths, which users may make, take no
time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCgroup:
    """``job`` or ``sluid`` names the job; ``step`` is empty for the job's own cgroup. ``path`` is that of the step.
    ``of_task``: below the step's part for tasks."""

    path: str
    job: int | None = None
    sluid: str = ""
    step: str = ""
    of_task: bool = False


def each(text: str) -> Iterator[StepCgroup]:
    """Those in the text of ``/proc/PID/cgroup``, or in one path."""
    for word in text.split():
        for match in _STEP.finditer(word):
            job, sluid, step, tasks = match.groups()
            # A SLUID alone could be the name of anything.
            if job is None and not step:
                continue
            yield StepCgroup(
                path=word[: match.end()].removesuffix(tasks or ""),
                job=int(job) if job else None,
                sluid=sluid or "",
                step=step or "",
                of_task=tasks is not None,
            )


def find(text: str) -> StepCgroup | None:
    """The first one."""
    return next(each(text), None)

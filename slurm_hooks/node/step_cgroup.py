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

_PATH = re.compile(
    r"(\S*?/(?:job_([0-9]{1,10})|(s[0-9A-HJKMNP-TV-Z]{13}))(?:/step_([A-Za-z0-9]+)(/user(?=/|$))?)?)(?=/|$)",
    re.MULTILINE,
)
"""A SLUID has the digits of Crockford's base 32."""


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
    for match in _PATH.finditer(text):
        path, job, sluid, step, tasks = match.groups()
        # A SLUID alone could be the name of anything.
        if job is None and not step:
            continue
        yield StepCgroup(
            path=path.removesuffix(tasks or ""),
            job=int(job) if job else None,
            sluid=sluid or "",
            step=step or "",
            of_task=tasks is not None,
        )


def find(text: str) -> StepCgroup | None:
    """The first one."""
    return next(each(text), None)

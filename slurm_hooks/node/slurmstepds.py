"""Which steps of jobs run on this node, from their slurmstepds.

The title of a slurmstepd is ``slurmstepd: [4711.0]``; that of the extern step, which runs as long as
the job (PrologFlags=contain), is ``slurmstepd: [4711.extern]``, followed by ``stepmgr`` on one node
(src/slurmd/slurmstepd/slurmstepd.c, seen on 24.11.5 and 26.05.5).

Every user can give a process such a title, and so hide that another user's job is lost. So only
processes of root count, and none in the cgroup of another job or of a user's login: sudo takes root's
uids before it asks for a password, and any user can start it under any title.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from slurm_hooks.node import kernel_files
from slurm_hooks.node.process_scan import uid_of

_TITLE = re.compile(rb"slurmstepd: \[(\d{1,10})\.([^\s\]:]+)")
_TITLE_BYTES = 256
_JOB = re.compile(r"/job_([0-9]{1,10})(?:/|$)", re.MULTILINE)
_LOGIN = re.compile(r"/user[-@][1-9]")
"""systemd's cgroups of a user who is not root."""
_ROOT = 0


def steps(procfs: Path) -> Iterator[tuple[int, str]]:
    """(job, step) of each slurmstepd, e.g. ``(4711, "extern")``. Processes of other users are not
    read: they could keep the reader waiting."""
    for name in os.listdir(procfs):  # noqa: PTH208 - names alone are wanted
        folder = procfs / name
        if not name.isdigit() or uid_of(folder) != _ROOT:
            continue
        try:
            with (folder / "cmdline").open("rb", buffering=0) as file:
                title = _TITLE.match(file.read(_TITLE_BYTES))
        except OSError:
            continue  # the process has exited
        if title and _may_serve(int(title[1]), kernel_files.text(str(folder / "cgroup"))):
            yield int(title[1]), title[2].decode("ascii", "replace")


def _may_serve(job: int, cgroups: str) -> bool:
    """Whether a process in these cgroups can be the job's slurmstepd. They name no job where Slurm uses
    no cgroups."""
    return not _LOGIN.search(cgroups) and {int(found) for found in _JOB.findall(cgroups)} <= {job}

"""Which steps of jobs run on this node, from their slurmstepds.

The title of a slurmstepd is ``slurmstepd: [4711.0]``; that of the extern step, which runs as long as
the job (PrologFlags=contain), is ``slurmstepd: [4711.extern]``, followed by ``stepmgr`` on one node
(src/slurmd/slurmstepd/slurmstepd.c, seen on 24.11.5 and 26.05.5).

Every user can give a process such a title, and so hide that another user's job is lost. So only
processes of root count that run the program slurmstepd, and none in the cgroup of a task, of another job
or of a user's login: sudo takes root's uids before it asks for a password, and any user can start it under
any title, from a crontab too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from slurm_hooks.node import kernel_files, step_cgroup
from slurm_hooks.node.process_scan import uid_of

_TITLE = re.compile(rb"slurmstepd: \[(\d{1,10})\.([^\s\]:]+)")
_TITLE_BYTES = 256
_LOGIN = re.compile(r"/user[-@][1-9]")
"""systemd's cgroups of a user who is not root."""
_PROGRAM = "slurmstepd"
"""How the name of its file begins: Debian's is ``slurmstepd-wlm``, and after an upgrade of Slurm the kernel appends
`` (deleted)``."""
_ROOT = 0


def steps(procfs: Path) -> Iterator[tuple[int, str]]:
    """(job, step) of each slurmstepd, e.g. ``(4711, "extern")``. Processes of other users are not
    read: they could keep the reader waiting."""
    for job, step, _ in _each(procfs):
        yield job, step


def jobs_of_sluids(procfs: Path) -> dict[str, int]:
    """SLUID → job, from the cgroups of the slurmstepds, where those are named by SLUIDs."""
    found = {}
    for job, _, cgroups in _each(procfs):
        path = step_cgroup.find(cgroups)
        if path is not None and path.sluid:
            found[path.sluid] = job
    return found


def _each(procfs: Path) -> Iterator[tuple[int, str, str]]:
    """Job, step and the text of the cgroups of each slurmstepd."""
    for name in os.listdir(procfs):  # noqa: PTH208 - names alone are wanted
        folder = procfs / name
        if not name.isdigit() or uid_of(folder) != _ROOT:
            continue
        try:
            with (folder / "cmdline").open("rb", buffering=0) as file:
                title = _TITLE.match(file.read(_TITLE_BYTES))
        except OSError:
            continue  # the process has exited
        if title and not _runs_another_program(folder):
            cgroups = kernel_files.text(str(folder / "cgroup"))
            if _may_serve(int(title[1]), cgroups):
                yield int(title[1]), title[2].decode("ascii", "replace"), cgroups


def _runs_another_program(folder: Path) -> bool:
    """False where it is not known: the agent may not be allowed to read that."""
    try:
        program = os.readlink(folder / "exe")  # noqa: PTH115 - a text, not a path to follow
    except OSError:
        return False
    return not Path(program).name.startswith(_PROGRAM)


def _may_serve(job: int, cgroups: str) -> bool:
    """Whether a process in these cgroups can be the job's slurmstepd. They name no job where Slurm uses
    no cgroups."""
    return not _LOGIN.search(cgroups) and all(
        path.job in (None, job) and not path.of_task for path in step_cgroup.each(cgroups)
    )

"""Turns a contained worker into a process of one user: it reads that user's files and sends signals with that
user's rights, and with no others.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
from pathlib import Path
from typing import NamedTuple

from holdfast.errors import HoldfastError
from slurm_hooks.node import kernel_files

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_GID = re.compile(r"^Gid:\t([0-9]+)", re.MULTILINE)
_UIDS = re.compile(r"^Uid:\t([0-9]+)\t([0-9]+)\t([0-9]+)", re.MULTILINE)
_GROUPS = re.compile(r"^Groups:\t([0-9 ]*)$", re.MULTILINE)


class NotPossible(HoldfastError):
    """The worker cannot become this user."""


class _Groups(NamedTuple):
    gid: int
    others: list[int]


def become(uid: int, procfs: Path) -> None:
    """Raises ``NotPossible``. The groups are those of a process of the user: the user database may be remote,
    and may not answer."""
    if os.geteuid() == uid:
        return
    if uid == 0:
        raise NotPossible("tasks of root are left alone")
    found = _groups(uid, procfs)
    if found is None:
        raise NotPossible(f"no process of uid {uid} yet")
    parent = os.getppid()
    try:
        os.setgroups(found.others)
        os.setresgid(found.gid, found.gid, found.gid)
        os.setresuid(uid, uid, uid)
    except PermissionError:
        why = "the agent needs the capabilities SETUID and SETGID to read users' journals"
        raise NotPossible(why) from None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # the user must not read the memory of the agent's fork
    # A change of the user clears it: prctl(2).
    prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def _groups(uid: int, procfs: Path) -> _Groups | None:
    """The groups of any process that runs as this user alone."""
    for name in os.listdir(procfs):  # noqa: PTH208 - names alone are wanted
        if not name.isdigit():
            continue
        status = kernel_files.text(str(procfs / name / "status"))
        uids, gid, groups = (one.search(status) for one in (_UIDS, _GID, _GROUPS))
        if uids and gid and groups and {int(one) for one in uids.groups()} == {uid}:
            return _Groups(int(gid[1]), [int(group) for group in groups[1].split()])
    return None

"""Has ranks write a dump of torch's flight recorder before they are killed, where their job has it switched on.

The named pipe and the dump are the user's, so a child process with the user's rights alone opens them. The launcher
keeps the dump with those of the job's other nodes (``slurm_hooks.job.progress.failure_evidence``).
"""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from slurm_hooks.job.progress.ranks.flight_dump import PIPE, FlightDump
from slurm_hooks.node import kernel_files
from slurm_hooks.node.process_scan import uid_of
from slurm_hooks.worker.as_user import become

_WAIT_S = 1.5
_MARGIN_S = 0.3
_POLL_S = 0.02
_MOST_USERS = 8
"""More of them than have jobs on one node."""


def request(procfs: Path, tasks: Mapping[int, Mapping[str, str]]) -> None:
    """Asks the ranks of these processes (pid → environment), and waits until each has written its dump, a second
    and a half at most. Never raises."""
    by_user: dict[int, dict[int, int]] = defaultdict(dict)
    for pid, env in tasks.items():
        rank = kernel_files.whole(env.get("RANK" if "LOCAL_RANK" in env else "SLURM_PROCID", ""))
        uid = uid_of(procfs / str(pid)) if env.get(PIPE) and rank is not None else None
        if uid is not None and rank is not None:
            by_user[uid].setdefault(rank, pid)
    children = [
        child
        for uid, ranks in list(by_user.items())[:_MOST_USERS]
        if (child := _forked(procfs, uid, [(rank, pid, tasks[pid]) for rank, pid in ranks.items()]))
    ]
    end = time.monotonic() + _WAIT_S + _MARGIN_S
    for child in children:
        _wait(child, end)


def _forked(procfs: Path, uid: int, ranks: Sequence[tuple[int, int, Mapping[str, str]]]) -> int:
    """A child that asks these ranks (number, pid, environment) as their user; 0: there is none."""
    try:
        child = os.fork()
    except OSError:
        return 0
    if child:
        return child
    try:
        become(uid, procfs)
        _ask(procfs, ranks)
    finally:
        os._exit(0)


def _ask(procfs: Path, ranks: Sequence[tuple[int, int, Mapping[str, str]]]) -> None:
    asked = []
    for rank, pid, env in ranks:
        environ = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
        dump = FlightDump(environ, rank, procfs / str(pid) / "root")
        if dump.request():
            asked.append(dump)
    end = time.monotonic() + _WAIT_S
    while asked and time.monotonic() < end:
        asked = [dump for dump in asked if dump.pending() is None]
        time.sleep(_POLL_S)


def _wait(child: int, end: float) -> None:
    """Until the child has ended. One that still waits for a file of the user is killed."""
    with suppress(ChildProcessError):
        while os.waitpid(child, os.WNOHANG)[0] == 0:
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                end = float("inf")
            time.sleep(_POLL_S)

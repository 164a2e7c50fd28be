"""Has ranks write a dump of torch's flight recorder before they are killed, where their job has it switched on.

The named pipe and the dump are the user's, so a child process with the user's rights alone opens them. The launcher
keeps the dump with those of the job's other nodes (``slurm_hooks.job.progress.failure_evidence``).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from slurm_hooks.agent.kill_tasks.recorders import Recorder, Recorders
from slurm_hooks.job.progress.ranks.flight_dump import FlightDump
from slurm_hooks.worker.as_user import become, groups_of

_WAIT_S = 1.5
_MARGIN_S = 0.3
_POLL_S = 0.02


def request(procfs: Path, recorders: Recorders) -> None:
    """Asks these ranks, and waits until each has written its dump, a second and a half at most. Never raises."""
    children = [
        child for uid, ranks in recorders.by_user() if (child := _forked(procfs, uid, ranks))
    ]
    end = time.monotonic() + _WAIT_S + _MARGIN_S
    for child in children:
        _wait(child, end)


def _forked(procfs: Path, uid: int, ranks: Sequence[Recorder]) -> int:
    """A child that asks these ranks as their user; 0: there is none."""
    try:
        child = os.fork()
    except OSError:
        return 0
    if child:
        return child
    try:
        if os.geteuid() != uid:
            become(uid, groups_of(uid, procfs))
        _ask(procfs, ranks)
    finally:
        os._exit(0)


def _ask(procfs: Path, ranks: Sequence[Recorder]) -> None:
    asked = []
    for one in ranks:
        environ = {os.fsencode(name): os.fsencode(value) for name, value in one.env.items()}
        dump = FlightDump(environ, one.rank, procfs / str(one.pid) / "root")
        if dump.request():
            asked.append(dump)
    end = time.monotonic() + _WAIT_S
    while asked and time.monotonic() < end:
        asked = [dump for dump in asked if dump.pending() is None]
        time.sleep(_POLL_S)


def _wait(child: int, end: float) -> None:
    """Until the child has ended. One that still waits for a file of the user is killed, and not waited for: a
    file system of the user's can keep it in the kernel. It is reaped after this worker's end."""
    with suppress(ChildProcessError):
        while os.waitpid(child, os.WNOHANG)[0] == 0:
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                return
            time.sleep(_POLL_S)

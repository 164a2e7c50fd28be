"""Steps on this node whose slurmstepd was killed, by the sockets of the slurmstepds.

Each slurmstepd listens on ``SlurmdSpoolDir/NODE_JOB.STEP`` and removes the file before it exits
(src/slurmd/slurmstepd/req.c, 24.11 and 26.05). So a file that is still there, while the process that
listened is gone, belongs to one that was killed. Its tasks go on, and srun waits for them for ever.

Only root writes to the folder. A file from before the start of the job's run counts only with a listener
that was seen alive: it may be of an earlier boot, or of an earlier run of the job.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_hooks.node import machine
from slurm_hooks.node.process import Process, process_state

_CREDENTIALS = struct.Struct("3i")
_PSEUDO_STEP = 0xFFFFFFF0
"""Slurm numbers its own pseudo steps (batch, extern, interactive) down from 2^32."""
_LOOKS = 2
"""Of a listener that was never seen: a slurmstepd that ends closes its socket a moment before it removes
the file. One that was seen counts as killed at once if the file outlives it."""
_CLOCK_S = 1.0
"""By how much the times of files and of the prolog's note may differ."""
UNKNOWN = 0
"""Somebody listens, of another pid namespace, or takes no connection at this moment."""
_FOR_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class NoSpoolFolder(Exception):
    """The folder cannot be trusted or read; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KilledStep:
    """A step of a job whose slurmstepd on this node was killed."""

    job: int
    step: str


@dataclass(slots=True)
class _Listener:
    """``process`` None: not known. ``old``: its socket is older than the run of its job. ``gone``: looks in
    a row in which it was gone. ``reported``: as killed."""

    step: KilledStep
    old: bool
    process: Process | None = None
    gone: int = 0
    reported: bool = False


class StepSockets:
    """``folder``: SlurmdSpoolDir of this node. ``listening``: as ``pid_listening``."""

    def __init__(
        self,
        folder: Path,
        node: str,
        procfs: Path,
        listening: Callable[[Path], int | None] | None = None,
    ) -> None:
        self._folder, self._procfs = folder, procfs
        self._name = re.compile(rf"{re.escape(node)}_([0-9]{{1,10}})\.([0-9]{{1,10}})")
        self._listening = listening or pid_listening
        self._known: dict[tuple[str, int], _Listener] = {}

    def killed(self, jobs: Mapping[int, float]) -> Iterator[KilledStep]:
        """The steps of ``jobs`` whose slurmstepd was found killed in this look; each once. ``jobs``: seconds
        since boot at which each one's run began here.

        Raises ``NoSpoolFolder``.
        """
        found = dict(self._sockets(jobs))
        self._known = {key: self._known.get(key, new) for key, new in found.items()}
        for key, known in self._known.items():
            if self._lives(key[0], known):
                known.gone = 0
            elif not known.reported:
                known.gone += 1
                seen = known.process is not None and self._is_there(*key)
                if seen or known.gone >= _LOOKS:
                    known.reported = True
                    yield known.step

    def _is_there(self, name: str, inode: int) -> bool:
        """Read after the end of the process, since one that ends normally removes its file before."""
        try:
            return (self._folder / name).lstat().st_ino == inode
        except OSError:
            return False

    def _lives(self, name: str, known: _Listener) -> bool:
        if known.process is not None:
            return known.process.alive(str(self._procfs))
        pid = self._listening(self._folder / name)
        state = process_state(pid, str(self._procfs)) if pid else None
        known.process = Process(pid, state[1]) if pid and state else None
        return known.old or pid is not None

    def _sockets(self, jobs: Mapping[int, float]) -> Iterator[tuple[tuple[str, int], _Listener]]:
        try:
            owned = self._folder.stat()
            entries = list(os.scandir(self._folder))
        except OSError as error:
            raise NoSpoolFolder(f"{self._folder}: {error.strerror or error}") from None
        if owned.st_uid != os.geteuid() or owned.st_mode & _FOR_OTHERS:
            raise NoSpoolFolder(f"{self._folder}: others than root can write to it")
        booted_at = time.time() - machine.uptime_s(self._procfs)
        for entry in entries:
            name = self._name.fullmatch(entry.name)
            if name is None or int(name[1]) not in jobs or int(name[2]) >= _PSEUDO_STEP:
                continue
            try:
                facts = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # the step has ended
            if stat.S_ISSOCK(facts.st_mode):
                began_at = booted_at + jobs[int(name[1])] - _CLOCK_S
                step = KilledStep(job=int(name[1]), step=name[2])
                yield (entry.name, facts.st_ino), _Listener(step, facts.st_mtime < began_at)


def pid_listening(path: Path) -> int | None:
    """Pid of the process that listens at a Unix socket; None: nobody does. Never waits."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as client:
        status = client.connect_ex(os.fspath(path))
        if status:
            return None if status in (errno.ECONNREFUSED, errno.ENOENT) else UNKNOWN
        found = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(found)[0]) or UNKNOWN

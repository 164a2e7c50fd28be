"""Steps on this node whose slurmstepd was killed, by the sockets of the slurmstepds.

Each slurmstepd listens on ``SlurmdSpoolDir/NODE_JOB.STEP`` and removes the file before it exits
(src/slurmd/slurmstepd/req.c, 24.11 and 26.05). So a file that is still there, while the process that
listened is gone, belongs to one that was killed. Its tasks go on, and srun waits for them for ever.

Only root writes to the folder. That a listener was seen alive excludes files from before the last boot.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
import struct
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path

from slurm_hooks.node.process import Process, process_state

_CREDENTIALS = struct.Struct("3i")
_PSEUDO_STEP = 0xFFFFFFF0
"""Slurm numbers its own pseudo steps (batch, extern, interactive) down from 2^32."""
_LOOKS = 2
"""A slurmstepd that ends normally may be gone a moment before this process sees that its file is."""
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
    """``process`` None: not seen alive. ``gone``: looks in a row in which it was gone."""

    step: KilledStep
    process: Process | None
    gone: int = 0


class StepSockets:
    """``folder``: SlurmdSpoolDir of this node. ``listening``: pid of the process that listens at a path, None
    if none does."""

    def __init__(
        self,
        folder: Path,
        node: str,
        procfs: Path,
        listening: Callable[[Path], int | None] | None = None,
    ) -> None:
        self._folder, self._procfs = folder, str(procfs)
        self._name = re.compile(rf"{re.escape(node)}_([0-9]{{1,10}})\.([0-9]{{1,10}})")
        self._listening = listening or pid_listening
        self._known: dict[tuple[str, int], _Listener] = {}

    def killed(self, jobs: Set[int]) -> Iterator[KilledStep]:
        """The steps of ``jobs`` whose slurmstepd was found killed in this look; each once.

        Raises ``NoSpoolFolder``.
        """
        found = dict(self._sockets(jobs))
        self._known = {key: known for key, known in self._known.items() if key in found}
        for key, step in found.items():
            known = self._known.get(key)
            if known is None or known.process is None:
                process = self._process(self._folder / key[0])
                self._known[key] = _Listener(step, process)
            elif known.process.alive(self._procfs):
                known.gone = 0
            else:
                known.gone += 1
                if known.gone == _LOOKS:
                    yield step

    def _sockets(self, jobs: Set[int]) -> Iterator[tuple[tuple[str, int], KilledStep]]:
        try:
            owned = self._folder.stat()
            entries = list(os.scandir(self._folder))
        except OSError as error:
            raise NoSpoolFolder(f"{self._folder}: {error.strerror or error}") from None
        if owned.st_uid != os.geteuid() or owned.st_mode & _FOR_OTHERS:
            raise NoSpoolFolder(f"{self._folder}: others than root can write to it")
        for entry in entries:
            name = self._name.fullmatch(entry.name)
            if name is None or int(name[1]) not in jobs or int(name[2]) >= _PSEUDO_STEP:
                continue
            try:
                facts = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # the step has ended
            if stat.S_ISSOCK(facts.st_mode):
                step = KilledStep(job=int(name[1]), step=name[2])
                yield (entry.name, facts.st_ino), step

    def _process(self, path: Path) -> Process | None:
        pid = self._listening(path)
        state = process_state(pid, self._procfs) if pid else None
        return Process(pid, state[1]) if pid and state else None


def pid_listening(path: Path) -> int | None:
    """Pid of the process that listens at a Unix socket; None: none, it is of another pid namespace, or it
    takes no connection at this moment. Never waits."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as client:
        if client.connect_ex(os.fspath(path)) not in (0, errno.EISCONN):
            return None
        found = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(found)[0]) or None

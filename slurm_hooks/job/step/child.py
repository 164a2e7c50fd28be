"""The launcher's one child: in its own process group, its standard error passed on and read along
the way.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from slurm_hooks.job.step.srun_output import TaskDeath, cancelled_step_in, death_in, ended_step_in
from slurm_hooks.node.process import send

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_STAT = re.compile(r"\d+ \((?P<comm>.*)\) \S (?P<parent>\d+) (?P<group>\d+) ", re.DOTALL)
_TAIL_LINES = 400
_MAX_LINE_BYTES = 16384


def _prepare(parent: int) -> Callable[[], None]:
    """What the child does between fork and exec.

    SIGTERM at the launcher's death: srun then ends the step, where a SIGKILLed srun would leave
    ranks behind that nobody waits for. Set in the child because the kernel clears it at fork.
    """

    def prepare() -> None:
        os.setpgid(0, 0)
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(127)
        for one in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE):
            signal.signal(one, signal.SIG_DFL)

    return prepare


class Child:
    """A started command.

    Standard error comes through a pipe, because srun tells nobody else which rank died first; each
    byte is passed on unchanged. ``deaths`` are the tasks that srun reported, ``ended_steps`` the
    steps that it ends for them, ``cancelled_step`` the step that somebody else cancelled, ``troubled``
    whether srun told of an error that is no task's death, ``tail`` the last lines. Set ``being_ended``
    before ending it: a step is then cancelled for us.
    """

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], now: Callable[[], float]
    ) -> None:
        """Starts it. Raises OSError when it cannot be started."""
        self._now = now
        self.deaths: list[TaskDeath] = []
        self.ended_steps: set[str] = set()
        self.cancelled_step = ""
        self._aborted = False
        self.troubled = False
        self.being_ended = False
        self.tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._partial = b""
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(read_end, False)
        try:
            # preexec_fn is safe here: no other thread runs at this moment (Watch starts after).
            self._process = subprocess.Popen(
                list(argv),
                env=dict(env),
                stderr=write_end,
                preexec_fn=_prepare(os.getpid()),
                close_fds=True,
            )
        except OSError:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        self.stderr_fd = read_end

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal(self, number: int) -> None:
        """Sends a signal to the child's whole group; nothing when it is gone."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def sruns(self, procfs: Path = Path("/proc")) -> frozenset[int]:
        """The srun of the group: the child itself, or those that a script runs just now."""
        parents = {}
        for entry in procfs.iterdir():
            try:
                pid, found = int(entry.name), _STAT.match((entry / "stat").read_text())
            except (OSError, ValueError):
                continue
            if found and found["comm"] == "srun" and int(found["group"]) == self.pid:
                parents[pid] = int(found["parent"])
        # srun's own helper (its shepherd) is none.
        return frozenset(pid for pid, parent in parents.items() if parent not in parents)

    def kill(self, sruns: frozenset[int]) -> None:
        """SIGKILL for what is left of ``sruns``: for the whole group where the child is one of
        them, for the one that a script waits for. Of several at once, nobody knows which."""
        left = sruns & self.sruns()
        if self.pid in left:
            self.signal(signal.SIGKILL)
        elif len(left) == 1:
            pid = min(left)
            with suppress(PermissionError):
                send(pid, signal.SIGKILL, lambda: pid in self.sruns())

    def status(self) -> int | None:
        """Exit status as ``subprocess`` tells it (negative: a signal), ``None`` while it runs."""
        return self._process.poll()

    def pass_on(self) -> bool:
        """Copies what standard error holds now. False at its end."""
        while True:
            try:
                data = os.read(self.stderr_fd, 65536)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not data:
                return False
            _write_all(data)
            self._read_along(data)

    def _read_along(self, data: bytes) -> None:
        *lines, rest = (self._partial + data).split(b"\n")
        self._partial = rest[-_MAX_LINE_BYTES:]
        for raw in lines:
            line = raw[:_MAX_LINE_BYTES].decode("utf-8", "replace")
            self.tail.append(line)
            if "srun: error:" in line:
                death = death_in(line, self._now())
                if death:
                    self.deaths.append(death)
                self.troubled |= death is None or not death.tasks
            elif " CANCELLED AT " in line and not self.being_ended:
                blind = bool(self.deaths) and not self._aborted
                self.cancelled_step = cancelled_step_in(line, blind=blind) or self.cancelled_step
                self._aborted = False
            elif "srun: Job step aborted" in line:
                self._aborted = not self.deaths
            elif "srun: Terminating" in line:
                self.ended_steps |= {ended_step_in(line)} - {""}

    def close(self) -> None:
        os.close(self.stderr_fd)


def _write_all(data: bytes) -> None:
    """To our own standard error, whole. A log that cannot be written must not end the training."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(2, view) :]
        except OSError:
            return

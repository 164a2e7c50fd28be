"""The launcher's child process: it runs in its own process group, and its standard error is copied
and parsed.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from slurm_hooks.job.step.srun_output import (
    TaskFailure,
    aborts_itself,
    cancelled_step_in,
    ended_step_in,
    task_failure_in,
)
from slurm_hooks.node.process import send

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_STAT = re.compile(r"\d+ \((?P<comm>.*)\) \S (?P<parent>\d+) (?P<group>\d+) ", re.DOTALL)
_MAX_LINE_BYTES = 16384

_NOT_FORWARDED = frozenset(
    {
        *(signal.SIGKILL, signal.SIGSTOP),  # nobody can catch these
        signal.SIGCHLD,
        *(signal.SIGPIPE, signal.SIGXFSZ),  # Python ignores these: writing returns an error
        *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL),  # errors of this process
        *(signal.SIGTRAP, signal.SIGSYS),
    }
)
FORWARDED = tuple(sorted(int(number) for number in signal.valid_signals() - _NOT_FORWARDED))
"""Signals that the launcher passes on to the child: all that ``sbatch --signal``, ``scancel --signal`` and
Slurm itself can send and a process can catch, by name or by number (real-time signals)."""


def _prepare(parent: int) -> Callable[[], None]:
    """Returns what the child does between fork and exec.

    The child gets SIGTERM when the launcher exits: srun then ends its step, while an srun ended by
    SIGKILL would leave its ranks running. It is set in the child because fork clears it.
    """

    def prepare() -> None:
        os.setpgid(0, 0)
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(127)
        for number in (*FORWARDED, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)

    return prepare


class Child:
    """A started command.

    Standard error comes through a pipe, because only srun's output shows which rank failed first.
    Every byte is copied unchanged.

    ``failures``        failed tasks that srun reported.
    ``ended_steps``     steps that srun ends because of them.
    ``cancelled_step``  the step that a user cancelled.
    ``srun_error``      srun reported an error that is not a task's failure.
    ``aborted_itself``  the program had Slurm end its step.
    ``heard``           is given what was copied.
    ``ending_step``     set it before ending the step: a cancelled step is then the launcher's doing.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        now: Callable[[], float],
        heard: Callable[[bytes], None],
    ) -> None:
        """Starts the command. Raises OSError when it cannot be started."""
        self._now, self._heard = now, heard
        self.failures: list[TaskFailure] = []
        self.ended_steps: set[str] = set()
        self.cancelled_step = ""
        self._aborted = False
        self.srun_error = self.aborted_itself = False
        self.ending_step = False
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
        """Sends a signal to the child's process group, if it still exists."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def sruns(self, procfs: Path = Path("/proc")) -> frozenset[int]:
        """The srun processes of the group: the child itself, or those that a script is running."""
        parents = {}
        for entry in procfs.iterdir():
            try:
                pid, stat = int(entry.name), _STAT.match((entry / "stat").read_text())
            except (OSError, ValueError):
                continue
            if stat and stat["comm"] == "srun" and int(stat["group"]) == self.pid:
                parents[pid] = int(stat["parent"])
        # srun forks a helper (its shepherd), which does not count.
        return frozenset(pid for pid, parent in parents.items() if parent not in parents)

    def kill(self, sruns: frozenset[int]) -> None:
        """Sends SIGKILL to what is left of ``sruns``: to the whole group if the child is one of them,
        else to the only one that is left. Of several, none is killed: it is not known which hangs."""
        left = sruns & self.sruns()
        if self.pid in left:
            self.signal(signal.SIGKILL)
        elif len(left) == 1:
            pid = min(left)
            with suppress(PermissionError):
                send(pid, signal.SIGKILL, lambda: pid in self.sruns())

    def status(self) -> int | None:
        """Exit status as in ``subprocess`` (negative: a signal), ``None`` while it runs."""
        return self._process.poll()

    def pass_on(self) -> bool:
        """Copies what standard error holds now. Returns False at end of file."""
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
            self._parse(data)
            self._heard(data)

    def _parse(self, data: bytes) -> None:
        *lines, rest = (self._partial + data).split(b"\n")
        self._partial = rest[-_MAX_LINE_BYTES:]
        for raw in lines:
            line = raw[:_MAX_LINE_BYTES].decode("utf-8", "replace")
            if "srun: error:" in line:
                failure = task_failure_in(line, self._now())
                if failure:
                    ending = self.ending_step or bool(self.ended_steps)
                    self.failures.append(replace(failure, ending=ending))
                self.srun_error |= failure is None or not failure.tasks
            elif " CANCELLED AT " in line and not self.ending_step:
                by_srun = bool(self.failures) and not self._aborted
                step = cancelled_step_in(line, task_failed_before=by_srun)
                self.cancelled_step = step or self.cancelled_step
                self._aborted = False
            elif "srun: Job step aborted" in line:
                self._aborted = not self.failures
            elif "srun: Terminating" in line:
                self.ended_steps |= {ended_step_in(line)} - {""}
            elif aborts_itself(line):
                self.aborted_itself = True

    def close(self) -> None:
        os.close(self.stderr_fd)


def _write_all(data: bytes) -> None:
    """Writes all of it to standard error. A log that cannot be written must not end the training."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(2, view) :]
        except OSError:
            return

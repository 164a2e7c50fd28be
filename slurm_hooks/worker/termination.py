"""Ends a worker's children: SIGTERM, later SIGKILL, and a file that names one that SIGKILL did not end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.adapters.state_file import write_atomic
from slurm_hooks.node.process import Process

STARVED_S = 30.0
"""A machine can be so busy that a process does not run for seconds (seen with a load of 20 on 2 CPUs)."""
GRACE_S = 0.1
"""Between SIGTERM and SIGKILL: SIGKILL inside NVML has frozen a GPU (dcgm-exporter 84)."""


@dataclass(slots=True)
class EndingChild:
    """A child that has to exit: when to send the next signal, and whether and when SIGKILL was sent
    (monotonic time; an earlier agent's SIGKILL: long ago)."""

    process: Process
    next_at: float
    killed: bool = False
    killed_at: float = float("-inf")
    signals: list[signal.Signals] = field(default_factory=lambda: [signal.SIGTERM, signal.SIGKILL])

    def push(self, now: float) -> None:
        """Sends the next signal: SIGTERM, then SIGKILL."""
        if not self.signals:
            return
        which = self.signals.pop(0)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, which)
        if which is signal.SIGKILL:
            self.killed, self.killed_at = True, now
        self.next_at = now + GRACE_S


class EndingChildren:
    """The children of one worker that have to exit. ``token``: see ``Worker``."""

    def __init__(self, token: Path | None) -> None:
        self._token = token
        self.children: list[EndingChild] = []
        self._adopt_token()

    @property
    def killed(self) -> EndingChild | None:
        """One that has got SIGKILL and has not exited."""
        return next((child for child in self.children if child.killed), None)

    def let_exit(self, process: Process, now: float) -> None:
        """A child that was told to exit. It gets signals if it does not."""
        self.children.append(EndingChild(process, now))

    def terminate(self, process: Process, now: float) -> None:
        """Send SIGTERM to a child; SIGKILL follows."""
        child = EndingChild(process, now)
        child.push(now)
        self.children.append(child)

    def reap(self, now: float) -> None:
        """Reap children that have exited; send signals to those that should have. Never waits."""
        staying = []
        for left in self.children:
            if _collected(left.process):
                self._remove_token(left)
                continue
            if now >= left.next_at and not left.killed:
                left.push(now)
                if left.killed:
                    self._write_token(left.process)
            staying.append(left)
        self.children = staying

    def _adopt_token(self) -> None:
        if self._token is None:
            return
        try:
            value = json.loads(self._token.read_text())
            process = Process(int(value["pid"]), int(value["start"]))
        except (OSError, ValueError, KeyError, TypeError):
            return
        if process.alive():
            self.children.append(EndingChild(process, 0.0, killed=True))
        else:
            self._token.unlink(missing_ok=True)

    def _write_token(self, process: Process) -> None:
        if self._token is None:
            return
        try:
            self._token.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(self._token, json.dumps({"pid": process.pid, "start": process.start}))
        except OSError:
            pass  # only a restarted agent would read it

    def _remove_token(self, left: EndingChild) -> None:
        if left.killed and self._token is not None:
            with contextlib.suppress(OSError):
                self._token.unlink(missing_ok=True)


def may_wait_for_cpu(state: str, killed_s: float) -> bool:
    """Whether a process that SIGKILL has not ended may only wait for a CPU, or has just ended (no state,
    Z). In uninterruptible sleep (D) it hangs in the kernel; runnable (R) for too long, it runs in the
    kernel without an end."""
    return state in ("R", "Z", "") and killed_s < STARVED_S


def _collected(process: Process) -> bool:
    """Whether it has exited. A child of this process is reaped, so that it leaves no zombie."""
    try:
        return os.waitpid(process.pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return not process.alive()

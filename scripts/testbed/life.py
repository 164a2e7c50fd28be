"""The end of processes, watched by pidfd so that a pid that was taken again cannot mislead."""

from __future__ import annotations

import os
import select
import signal

from testbed.errors import SandboxError


def end_namespace(pid: int, timeout_s: float = 20) -> None:
    """Kill pid 1 of a pid namespace and wait: it is gone only after everything in the namespace is."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(watch, signal.SIGKILL)
        wait_for_exit(watch, f"process {pid} does not end", timeout_s)
    except ProcessLookupError:
        pass
    finally:
        os.close(watch)


def wait_for_exit(watch: int, problem: str, timeout_s: float = 20) -> None:
    """Until the process of the pidfd ``watch`` is gone. Raises ``SandboxError`` with ``problem``."""
    poll = select.poll()
    poll.register(watch, select.POLLIN)
    if not poll.poll(timeout_s * 1000):
        raise SandboxError(f"{problem} within {timeout_s:g} s")

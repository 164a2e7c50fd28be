"""Kills Holdfast's processes in a box with SIGKILL."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Callable

from testbed.box import Box
from testbed.errors import SandboxError
from testbed.namespaces import enter

KILL_WITHIN_S = 20.0
"""Longer than the time without a launcher between two attempts."""


def once_it_runs(kill: Callable[[], bool]) -> bool:
    """Retry ``kill`` until it has killed a process. False after ``KILL_WITHIN_S``."""
    end = time.monotonic() + KILL_WITHIN_S
    while not kill():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def kill_agent(box: Box, node: str) -> bool:
    """Kill the node's agent. False when none was running."""
    return _kill(box, node, ["-m", "slurm_hooks.agent"])


def kill_launcher(box: Box, node: str) -> bool:
    """Kill the ``holdfast run`` of the job whose batch host is the node. False when none has run long
    enough for the agent to track it: before that, its job fails as with plain Slurm.
    """
    return _kill(box, node, ["holdfast", "run"], min_age_s=2.0)


def kill_bridge(box: Box) -> bool:
    """Kill the cluster's bridge. False when none was running."""
    return _kill(box, "controller", ["holdfast", "bridge"])


def _kill(box: Box, node: str, words: list[str], min_age_s: float = 0.0) -> bool:
    """Kill the processes on a node whose command line contains the two ``words`` in sequence."""
    done = False
    try:
        running = box.pids(node)
    except SandboxError:  # powered off
        return False
    for pid, argv in running:
        if min_age_s and _age_s(pid) < min_age_s:
            continue
        names = [word.rsplit("/", 1)[-1] for word in argv]
        if tuple(words) in set(itertools.pairwise(names)):
            # a short-lived child may have exited
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                done = True
    return done


def _age_s(pid: int) -> float:
    """Seconds since a process started; 0 once it has exited."""
    started = enter.started_at(pid)
    return time.monotonic() - started / os.sysconf("SC_CLK_TCK") if started else 0.0

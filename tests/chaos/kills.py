"""SIGKILL for one of Holdfast's own processes in a box."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal

from testbed.box import Box


def kill_agent(box: Box, node: str) -> bool:
    """The node's agent. False when none ran."""
    return _kill(box, node, ["-m", "slurm_hooks.agent"])


def kill_launcher(box: Box, node: str) -> bool:
    """The ``holdfast run`` of the job whose batch host the node is. False when none ran."""
    return _kill(box, node, ["holdfast", "run"])


def kill_bridge(box: Box) -> bool:
    """The cluster's bridge. False when none ran."""
    return _kill(box, "controller", ["holdfast", "bridge"])


def _kill(box: Box, node: str, words: list[str]) -> bool:
    """SIGKILL the processes on a node whose command line holds ``words`` side by side."""
    done = False
    for pid, argv in box.pids(node):
        names = [word.rsplit("/", 1)[-1] for word in argv]
        if tuple(words) in set(itertools.pairwise(names)):
            # a short-lived child of it may end by itself meanwhile
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                done = True
    return done

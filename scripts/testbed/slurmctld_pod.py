"""slurmctld in a box with pods: found, killed and started in its pod on a real kubelet."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from testbed.errors import SandboxError
from testbed.inside.processes import parent_of
from testbed.kube import Kubectl
from testbed.kube.manifests import SOPERATOR_NAMESPACE
from testbed.kube.slurm_pods import CONTROLLER_SET
from testbed.namespaces import enter

NAME = "slurmctld"
POD = f"{CONTROLLER_SET}-0"

_WAIT_S = 60.0
_IN_NAMESPACE = f"--namespace={SOPERATOR_NAMESPACE}"


def find(pids: Iterable[int]) -> int | None:
    """The process of slurmctld among ``pids``, without its child slurmscriptd. None: it does not run."""
    found = [pid for pid in pids if _is_slurmctld(enter.argv_of(pid))]
    return next((pid for pid in found if parent_of(pid) not in found), None)


def _is_slurmctld(argv: Sequence[str]) -> bool:
    return argv[1:2] == ["-D"] and Path(argv[0]).name == NAME


def stop(kubectl: Kubectl, pid: int | None) -> None:
    """Kill slurmctld, ``pid``; no pod starts it until ``start``.

    It is stopped until its pod is being deleted: kubelet starts a container again that ended earlier,
    and slurmctld, asked to end by SIGTERM, would save its state.
    """
    if pid is not None:
        os.kill(pid, signal.SIGSTOP)
    try:
        _scale(kubectl, 0)
        _wait(lambda: _is_leaving(kubectl), f"{POD} is not deleted")
    except BaseException:
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        raise
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def start(kubectl: Kubectl, running: Callable[[], bool]) -> None:
    """Let Kubernetes start slurmctld's pod; returns once the process runs."""
    _scale(kubectl, 1)
    _wait(
        running,
        f"{POD} does not run {NAME}; see: sandbox kubectl {_IN_NAMESPACE} describe pod {POD}",
    )


def _scale(kubectl: Kubectl, replicas: int) -> None:
    kubectl("scale", "statefulset", CONTROLLER_SET, _IN_NAMESPACE, f"--replicas={replicas}")


def _is_leaving(kubectl: Kubectl) -> bool:
    """Whether the pod is gone, or being deleted."""
    only = "--output=jsonpath={.metadata.name} {.metadata.deletionTimestamp}"
    shown = kubectl("get", "pod", POD, _IN_NAMESPACE, "--ignore-not-found", only).split()
    return not shown or len(shown) > 1


def _wait(good: Callable[[], bool], problem: str) -> None:
    end = time.monotonic() + _WAIT_S
    while not good():
        if time.monotonic() > end:
            raise SandboxError(f"{problem} (within {_WAIT_S:g} s)")
        time.sleep(0.1)

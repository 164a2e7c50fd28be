"""Waits for what the API server does a moment later, on a busy machine much later."""

from __future__ import annotations

import time
from collections.abc import Callable

from k8s_bridge.kube.api import KubeRefused
from k8s_bridge.kube.client import KubeApi

TIMEOUT_S = 120.0
PAUSE_S = 0.1


def until(holds: Callable[[], object], timeout_s: float = TIMEOUT_S) -> None:
    """Fails if that does not hold in time."""
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end, f"not within {timeout_s:g} s"
        time.sleep(PAUSE_S)


def until_denied(write: Callable[[], object]) -> None:
    """An admission policy takes effect within about a second."""

    def is_denied() -> bool:
        try:
            write()
        except KubeRefused:
            return True
        return False

    until(is_denied)


def until_in_force(kube: KubeApi, path: str) -> None:
    """Until the bridge's policy denies a label on the object at ``path``.

    The writes are tried only (dryRun): the policy allows a write that changes nothing, so a label that
    one write had set before the policy was in force would never be denied.
    """
    label = {"metadata": {"labels": {"early": "x"}}}
    until_denied(lambda: kube.request("PATCH", path, {"dryRun": "All"}, label))

"""Waiting for an admission policy."""

from __future__ import annotations

import time
from collections.abc import Callable

from k8s_bridge.kube.api import KubeRefused
from k8s_bridge.kube.client import Forms, KubeApi


def until_in_force(kube: KubeApi, path: str) -> None:
    """Until the bridge's policy denies a label on the Node at ``path``.

    The writes are tried only (dryRun): the policy allows a write that changes nothing, so a label that
    one write had set before the policy was in force would never be denied.
    """
    forms = Forms("application/merge-patch+json")
    label = {"metadata": {"labels": {"early": "x"}}}
    until_denied(lambda: kube._call("PATCH", path, {"dryRun": "All"}, label, forms))


def until_denied(write: Callable[[], object]) -> None:
    """A new policy takes effect within about a second, on a busy machine much later."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            write()
        except KubeRefused:
            return
        time.sleep(0.1)
    raise AssertionError("no policy denies it")

"""Follows a Node with ``kubectl get --watch``: every version and when it arrived."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

from testbed.box import Box
from testbed.namespaces import enter
from testbed.shape import KUBE_PROGRAMS

Look = tuple[float, dict[str, Any]]


class KubeWatch:
    """Context manager that collects (epoch seconds of arrival, Node) while open. No polling."""

    def __init__(self, box: Box, kube_name: str):
        argv = [str(KUBE_PROGRAMS / "kubectl"), "get", "node", kube_name, "--watch", "-o", "json"]
        self._argv = enter.argv_in(box.pid, argv, user="root", cwd="/", env={})
        self._seen: list[Look] = []
        self._changed = threading.Condition()

    def __enter__(self) -> KubeWatch:
        self._child = subprocess.Popen(
            self._argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        # The group: nsenter's child, kubectl, would keep running with the pipe open.
        os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        self._reader.join(2)
        if self._child.stdout:
            self._child.stdout.close()

    def first(
        self, holds: Callable[[dict[str, Any]], bool], timeout_s: float, after_s: float = 0.0
    ) -> Look | None:
        """Wait for the first version after ``after_s`` for which ``holds`` is true; None on a time-out."""
        end = time.monotonic() + timeout_s
        index = 0
        with self._changed:
            while True:
                for look in self._seen[index:]:
                    if look[0] >= after_s and holds(look[1]):
                        return look
                index = len(self._seen)
                if not self._changed.wait(max(0.0, end - time.monotonic())):
                    return None

    def _read(self) -> None:
        """kubectl prints one indented object after another; the line '}' ends each."""
        lines: list[str] = []
        for line in self._child.stdout or ():
            lines.append(line)
            if line == "}\n":
                node = json.loads("".join(lines))
                lines.clear()
                with self._changed:
                    self._seen.append((time.time(), node))
                    self._changed.notify_all()


def condition(node: dict[str, Any], kind: str) -> dict[str, Any]:
    """The Node's condition of that type; empty when there is none."""
    found = node["status"].get("conditions", [])
    return next((entry for entry in found if entry["type"] == kind), {})


def taint(node: dict[str, Any], key: str) -> dict[str, Any]:
    return next((entry for entry in node["spec"].get("taints", []) if entry["key"] == key), {})

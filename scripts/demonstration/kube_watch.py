"""A Node followed through ``kubectl get --watch``: what it looked like, and since when."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from testbed import enter
from testbed.box import Box
from testbed.shape import KUBE_PROGRAMS

Look = tuple[float, dict[str, Any]]


class KubeWatch:
    """A context: collects (epoch seconds of arrival, Node) while it is open. No polling."""

    def __init__(self, box: Box, kube_name: str):
        argv = [str(KUBE_PROGRAMS / "kubectl"), "get", "node", kube_name, "--watch", "-o", "json"]
        self._argv = enter.argv_in(box.pid, argv, user="root", cwd="/", env={})
        self._seen: list[Look] = []
        self._news = threading.Condition()

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The group: nsenter's child, kubectl itself, would outlive it and keep the pipe open.
        os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        self._reader.join(2)
        if self._child.stdout:
            self._child.stdout.close()

    def first(
        self, holds: Callable[[dict[str, Any]], bool], timeout_s: float, after_s: float = 0.0
    ) -> Look | None:
        """The first look from ``after_s`` on that ``holds``, waited for; None when none comes."""
        end = time.monotonic() + timeout_s
        index = 0
        with self._news:
            while True:
                for look in self._seen[index:]:
                    if look[0] >= after_s and holds(look[1]):
                        return look
                index = len(self._seen)
                if not self._news.wait(max(0.0, end - time.monotonic())):
                    return None

    def _read(self) -> None:
        """kubectl prints one indented object after the other: a line '}' ends each."""
        lines: list[str] = []
        for line in self._child.stdout or ():
            lines.append(line)
            if line == "}\n":
                node = json.loads("".join(lines))
                lines.clear()
                with self._news:
                    self._seen.append((time.time(), node))
                    self._news.notify_all()


def condition(node: dict[str, Any], kind: str) -> dict[str, Any]:
    """The Node's condition of that type, empty when it has none."""
    found = node["status"].get("conditions", [])
    return next((one for one in found if one["type"] == kind), {})


def taint(node: dict[str, Any], key: str) -> dict[str, Any]:
    return next((one for one in node["spec"].get("taints", []) if one["key"] == key), {})

"""Changes the box's configuration for a while, as an editor does, and reads the agents' verdicts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from demonstration.observe import Cluster, until
from testbed.box import Box

CONFIG = "/etc/holdfast/holdfast.yaml"


@contextmanager
def configured(box: Box, change: Callable[[str], str]) -> Iterator[None]:
    """The box with another configuration, loaded by every agent; restores the old one at the end."""
    path = box.path(CONFIG)
    before = path.read_text()
    _replace(box, path, change(before))
    try:
        yield
    finally:
        _replace(box, path, before)


def modes(text: str, mode: str) -> str:
    """The configuration with every check in this mode."""
    return re.sub(r"\{mode: [a-z]+", f"{{mode: {mode}", text)


def limits(text: str, check: str, words: str) -> str:
    """The configuration with these limits of a check."""
    return re.sub(rf"(\n  {check}: {{mode: [a-z]+)[^\n]*", rf"\1, limits: {{{words}}}}}", text)


def finding(cluster: Cluster, node: str, code: str, subject: str = "") -> dict[str, Any] | None:
    """The node's verdict if it contains the finding, else None."""
    verdict = cluster.verdict(node) or {}
    for found in verdict.get("findings") or []:
        if found["code"] == code and subject in found["detail"]:
            return verdict
    return None


def _replace(box: Box, path: Path, text: str) -> None:
    cluster, begin = Cluster(box), time.time()
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)
    for node in box.nodes:

        def reloaded(name: str = node.name) -> bool:
            verdict = cluster.verdict(name) or {}
            return bool(verdict.get("at", 0.0) > begin + 3.0)

        until(reloaded, f"{node.name}'s agent with another configuration", 40, 0.1)

"""Records what agents and bridge of a box export while nodes have faults."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testbed.box import Box
from testbed.errors import SandboxError

NODES = ("worker-0", "worker-1", "worker-2", "worker-3")
EVERY_S = 5.0
"""Time between two pages of one target, as Prometheus' scrape interval."""

_BRIDGE = (
    "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9646/metrics').read().decode())"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of one target. ``at_s``: epoch seconds; ``labels``: those that Prometheus adds."""

    at_s: float
    labels: Mapping[str, str]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """A fault from ``begin`` to ``end``, parts of the recording's length; 1: to its end."""

    node: str
    fault: Sequence[str]
    begin: float
    end: float


BREAKS = (
    Break(node="worker-1", fault=("gpu-lost", "--gpu", "3"), begin=0.3, end=0.7),
    Break(node="worker-2", fault=("mount-read-only", "/mnt/inference"), begin=0.5, end=1),
)


def record(box: Box, length_s: float) -> list[Page]:
    """The pages of ``length_s`` seconds, oldest first. Raises ``SandboxError`` where one is missing at the end."""
    begin_s = time.time()
    pages: list[Page] = []
    waiting = sorted(
        [(one.begin, one, True) for one in BREAKS] + [(one.end, one, False) for one in BREAKS],
        key=lambda change: change[0],
    )
    while (part := (time.time() - begin_s) / length_s) < 1:
        while waiting and waiting[0][0] <= part:
            _, one, broken = waiting.pop(0)
            if broken:
                box.fault(one.node, *one.fault)
            else:
                box.heal(one.node)
        next_s = time.time() + EVERY_S
        pages += _look(box)
        time.sleep(max(0.0, next_s - time.time()))
    seen = {page.labels["instance"] for page in pages[-len(NODES) - 1 :]}
    if len(seen) != len(NODES) + 1:
        raise SandboxError(f"at the end only {', '.join(sorted(seen))} export metrics")
    return pages


def _look(box: Box) -> list[Page]:
    found = []
    for name in NODES:
        done = box.node(name).run(["cat", "/run/holdfast/metrics.prom"], check=False)
        if done.returncode == 0:
            found.append(_page("holdfast", name, done.stdout))
    done = box.run(["python3", "-c", _BRIDGE], check=False)
    if done.returncode == 0:
        found.append(_page("bridge", "bridge", done.stdout))
    return found


def _page(job: str, instance: str, text: str) -> Page:
    return Page(at_s=time.time(), labels={"job": job, "instance": instance}, text=text)

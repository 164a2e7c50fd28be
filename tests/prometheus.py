"""Prometheus' own rule tests (``promtool test rules``) over the metrics that Holdfast really exports."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.vocabulary import Status
from k8s_bridge.endpoints.metrics import BridgeMetrics
from slurm_hooks.agent.drain.messages import SlurmStatus
from slurm_hooks.agent.telemetry.metrics import text_of
from slurm_hooks.facts import MountState
from tests.unit.slurm_hooks.agent.telemetry.test_metrics import FULL, snapshot

MINUTES = 180
"""The length of each series."""


class Series(NamedTuple):
    """One series: name, labels, and its values in promtool's notation, one each minute."""

    name: str
    labels: Mapping[str, str]
    values: str


def agent_page(node: str, *, healthy: bool = True) -> str:
    """The agent's own page; of a node without a fault, or of one with each kind of value."""
    now = replace(snapshot(), node=node)
    if healthy:
        assert FULL.mounts is not None
        mounts = tuple(replace(mount, state=MountState.OK) for mount in FULL.mounts)
        now = replace(
            now,
            status=Status.OK,
            slurm_status=SlurmStatus(),
            opened=[],
            facts=replace(FULL, blind=(), mounts=mounts),
        )
    return text_of(now)


def bridge_page() -> str:
    """The page of a bridge that has just started."""
    return generate_latest(BridgeMetrics().registry).decode()


_MOVES = {
    "holdfast_agent_last_pass_timestamp_seconds": "0+60",
    "holdfast_agent_passes_total": "0+12",
    "holdfast_agent_pass_seconds_total": "0+0.6",
    "holdfast_agent_cpu_seconds_total": "0+0.2",
}
"""What changes all the time on a healthy node, each minute."""


def series(page: str, **target: str) -> list[Series]:
    """The samples of a page as Prometheus stores them, with the labels of their target."""
    return [
        Series(
            sample.name,
            {**sample.labels, **target},
            f"{_MOVES.get(sample.name, f'{sample.value!r}+0')}x{MINUTES}",
        )
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    ]


def changed(
    every: Iterable[Series], name: str, labels: Mapping[str, str], values: str
) -> list[Series]:
    """``every`` with other ``values`` in the series of this name that have these labels.

    Raises AssertionError when there is none: nothing exports it.
    """
    every = list(every)
    hit = [one for one in every if one.name == name and labels.items() <= one.labels.items()]
    assert hit, f"nothing exports {name}{dict(labels)}"
    return [one._replace(values=values) if one in hit else one for one in every]


def written(one: Series) -> dict[str, str]:
    """A series in promtool's notation."""
    labels = ",".join(f"{name}={json.dumps(value)}" for name, value in one.labels.items())
    return {"series": f"{one.name}{{{labels}}}", "values": one.values}


def run(
    promtool: Path, folder: Path, tests: Sequence[Mapping[str, Any]], rules: str | None = None
) -> str:
    """What ``promtool test rules`` says against ``tests``; empty when all pass."""
    files = []
    if rules is not None:
        (folder / "rules.yml").write_text(rules)
        files = ["rules.yml"]
    file = folder / "tests.yml"
    file.write_text(
        json.dumps({"rule_files": files, "evaluation_interval": "1m", "tests": list(tests)})
    )
    done = subprocess.run(
        [promtool, "test", "rules", file], capture_output=True, text=True, check=False, timeout=250
    )
    said = done.stdout + done.stderr
    assert done.returncode in (0, 1), said
    return "" if done.returncode == 0 else said

"""Soperator's chart nodesets with Holdfast's lines, as an administrator merges them."""

from __future__ import annotations

import copy

import yaml

from charts.chart import unknown_keys
from charts.errors import NotHeld
from charts.release import Release
from holdfast.cli.commands.render import render_text

CLUSTER = "soperator"


def values(release: Release, *, with_ours: bool = True) -> str:
    """Values of the chart: its first nodeset, with Holdfast's lines merged into it or without them."""
    theirs = copy.deepcopy(release.values("nodesets")["nodesets"][0])
    (ours,) = yaml.safe_load(render_text("soperator-nodeset"))["nodesets"]
    unknown = unknown_keys(ours, theirs)
    if unknown:
        raise NotHeld(f"soperator-nodeset: the chart has no {', '.join(unknown)}")
    # The CRD rejects the chart's own example; this is the value of Nebius' recipe.
    theirs["slurmd"]["volumes"]["spool"] = {"emptyDir": {}}
    if with_ours:
        mounts = theirs["slurmd"]["volumes"].setdefault("customVolumeMounts", [])
        mounts += ours["slurmd"]["volumes"]["customVolumeMounts"]
    return yaml.safe_dump({"clusterName": CLUSTER, "nodesets": [theirs]})

"""Slinky's slurm-operator: its chart ``slurm`` with Holdfast's values, and its CRDs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from testbed.kube.local import ApiServer

from charts.chart import Checkout, NotHeld, accepted, template, unknown_keys
from holdfast.cli.render import render_text


def held(tree: Checkout, helm: str, folder: Path) -> dict[str, Any]:
    """The result for the record. Raises ``NotHeld``."""
    text = render_text("slinky", image="registry.example.org/holdfast:1", mounts="/mnt/training")
    given, known = yaml.safe_load(text), tree.values("slurm")
    nodeset = given["nodesets"]["slinky"]
    unknown = unknown_keys(given, known) + unknown_keys(nodeset, known["nodesetDefaults"])
    if unknown:
        raise NotHeld(f"slinky: the chart has no {', '.join(unknown)}")
    values = folder / "slinky.yaml"
    values.write_text(text)
    objects = template(helm, tree, "slurm", [values])
    controller = next(item for item in objects if item["kind"] == "Controller")
    crds = sorted((tree.path / "config/crd/bases").glob("slinky.slurm.net_*.yaml"))
    with ApiServer(folder / "kube-slinky") as server:
        kinds = accepted(server, crds, objects)
    return {
        "project": "SlinkyProject/slurm-operator",
        "commit": tree.commit,
        "chart": tree.chart("slurm")["version"],
        "values_keys": sorted(known),
        "nodeset_keys": sorted(known["nodesetDefaults"]),
        "extra_conf": sorted(controller["spec"]["extraConf"].strip().splitlines()),
        "accepted": kinds,
    }

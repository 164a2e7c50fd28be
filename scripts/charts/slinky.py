"""Slinky's slurm-operator: its chart ``slurm`` with Holdfast's values, and its CRDs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from testbed.kube.local import ApiServer

from charts.chart import Tools, accepted, establish, unknown_keys
from charts.digest import SLINKY
from charts.errors import NotHeld
from charts.operators import slinky as manager
from charts.release import Release, releases
from holdfast.cli.commands.render import render_text

_OLDEST = (1, 0)
_IGNORED = {"extraObjects"}
"""Keys that charts up to 1.1.2 ignore; docs/howto/slinky.md says what to do then."""
_NOT_NAMED = {"slurmd.env"}
"""Keys that a chart's values do not name, and that its template passes on (``slurmd`` shows it)."""


def charts(checkout: Path, tools: Tools) -> dict[str, Any]:
    """What each release's chart makes of the values, and its API server accepts. Raises ``NotHeld``."""
    found: dict[str, Any] = {"project": "SlinkyProject/slurm-operator", "releases": {}}
    with ApiServer(tools.folder / "kube-slinky") as server:
        for release in releases(checkout, tools.folder / "releases", since=_OLDEST):
            version = release.chart("slurm")["version"]
            print(f"{version} …", flush=True)
            found["releases"][version] = _release(server, tools, release)
    return found


def reconciled(checkout: Path, tools: Tools, program: Path) -> dict[str, Any]:
    """What the manager, built from the commit that is checked out, makes of the values."""
    *_, release = releases(checkout, tools.folder / "manager", since=_OLDEST)
    print(f"{release.chart('slurm')['version']}: slurm-operator's manager …", flush=True)
    return {"manager": manager.reconciled(tools, release, program)}


def _release(server: ApiServer, tools: Tools, release: Release) -> dict[str, Any]:
    known = release.values("slurm")
    nodesets: dict[str, Any] = known["nodesets"]
    defaults = known.get("nodesetDefaults") or nodesets["slinky"]
    text = render_text("slinky", **SLINKY)
    given = yaml.safe_load(text)
    unknown = unknown_keys(given, {**known, "nodesets": {}})
    of_nodeset = unknown_keys(given["nodesets"]["slinky"], defaults)
    unknown += [key for key in of_nodeset if key not in _NOT_NAMED]
    if set(unknown) - _IGNORED:
        raise NotHeld(f"slinky: the chart has no {', '.join(unknown)}")
    # What docs/howto/slinky.md requires in the user's own values.
    own = yaml.safe_dump({"nodesets": {"slinky": {"enabled": True, "replicas": 1}}})
    objects = tools.template(release, "slurm", own, text)
    controller = next(item for item in objects if item["kind"] == "Controller")
    nodeset = next((item for item in objects if item["kind"] == "NodeSet"), None)
    if nodeset is None:
        raise NotHeld("slinky: the chart made no NodeSet")
    establish(server, release.crds("slinky.slurm.net"))
    return {
        "commit": release.commit,
        "ignored_keys": unknown,
        "values_keys": sorted(known),
        "nodeset_keys": sorted(defaults),
        "extra_conf": sorted(controller["spec"]["extraConf"].strip().splitlines()),
        "slurmd": {name: nodeset["spec"]["slurmd"][name] for name in ("args", "env")},
        "accepted": accepted(server, objects),
    }

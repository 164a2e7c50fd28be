"""Soperator: its charts of all releases, its CRDs, its check runner and its manager."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from testbed.kube.local import ApiServer

from charts import nodesets, runner
from charts.chart import Object, Tools, accepted, establish, identity, unknown_keys
from charts.digest import HOOKS
from charts.errors import NotHeld
from charts.operators import soperator as manager
from charts.release import Release, releases
from holdfast.cli.commands.render import render_text
from holdfast.errors import UsageError

_SCRIPTS = "helm/slurm-cluster/slurm_scripts"
_OLDEST, _FIRST = (1, 22), (2, 0)
"""Releases since the first are rendered; those since the second take the values."""
_GROUP = "slurm.nebius.ai"
OWN_ENTRIES = {"wrapper": 5, "runner": 5}
"""Holdfast's entries in checks.json."""


def charts(checkout: Path, tools: Tools) -> dict[str, Any]:
    """What each release's charts make of the values, and its API server accepts. Raises ``NotHeld``."""
    found: dict[str, Any] = {"project": "nebius/soperator", "releases": {}, "ignored_by": []}
    with ApiServer(tools.folder / "kube") as server:
        server.kubectl("create", "namespace", "flux-system")
        flux = tools.write("flux.yaml", render_text("soperator", **{"as": "flux"}))
        server.kubectl("create", "--dry-run=server", "--validate=strict", "-f", str(flux))
        for release in releases(checkout, tools.folder / "charts", since=_OLDEST):
            version = release.chart("slurm-cluster")["version"]
            print(f"{version} …", flush=True)
            if _ignores_them(tools, release):
                _is_refused(version)
                found["ignored_by"].append(version)
            else:
                found["releases"][version] = _accepted(server, tools, release)
    return found


def answers(checkout: Path, tools: Tools) -> dict[str, Any]:
    """Release → hooks → exit statuses (``runner.answers``). Raises ``NotHeld``.

    Releases with the same scripts are tried once.
    """
    found: dict[str, Any] = {}
    tried: dict[str, Any] = {}
    for release in releases(checkout, tools.folder / "runner", since=_FIRST):
        version = release.chart("slurm-cluster")["version"]
        print(f"{version}: its check runner …", flush=True)
        found[version] = {}
        for hooks in HOOKS:
            objects = tools.template(
                release, "slurm-cluster", render_text("soperator", hooks=hooks)
            )
            scripts = _only_scripts_changed(tools, release, objects)
            key = json.dumps([hooks, *(scripts.get(name) for name in runner.SCRIPTS)])
            if key not in tried:
                tried[key] = runner.answers(scripts, tools.folder / f"run-{len(tried)}", hooks)
            found[version][hooks] = tried[key]
    return {"answers": found}


def reconciled(
    checkout: Path, tools: Tools, program: Path, flux: Path | None = None
) -> dict[str, Any]:
    """What Soperator's manager, built from the commit that is checked out, makes of the values.

    ``flux``: Flux's helm-controller.
    """
    *_, release = releases(checkout, tools.folder / "manager", since=_FIRST)
    print(f"{release.chart('slurm-cluster')['version']}: Soperator's manager …", flush=True)
    return {"manager": manager.reconciled(tools, release, program, flux)}


def _ignores_them(tools: Tools, release: Release) -> bool:
    """Whether the chart makes the same objects without Holdfast's values."""
    plain = tools.template(release, "slurm-cluster")
    return tools.template(release, "slurm-cluster", render_text("soperator")) == plain


def _is_refused(version: str) -> None:
    try:
        render_text("soperator", slurm_operator_version=version)
    except UsageError:
        return
    raise NotHeld(f"{version} ignores Holdfast's values, and `holdfast render` does not refuse it")


def _accepted(server: ApiServer, tools: Tools, release: Release) -> dict[str, Any]:
    known = runner_keys(release)
    version = release.chart("slurm-cluster")["version"]
    establish(server, release.crds(_GROUP))
    took: dict[str, list[str]] = {}
    for hooks in HOOKS:
        text = render_text("soperator", hooks=hooks, slurm_operator_version=version)
        unknown = unknown_keys(yaml.safe_load(text), _with_null_maps(release))
        if unknown:
            raise NotHeld(f"soperator {hooks}: the chart has no {', '.join(unknown)}")
        objects = tools.template(release, "slurm-cluster", text)
        scripts = _only_scripts_changed(tools, release, objects)
        _own_scripts_kept(release, scripts, hooks)
        _checks_are_known(scripts, known, hooks)
        took[hooks] = accepted(server, objects)
    took["nodeset"] = accepted(
        server, tools.template(release, "nodesets", nodesets.values(release))
    )
    return {"commit": release.commit, "check_keys": known, "accepted": took}


def runner_keys(release: Release) -> list[str]:
    """Keys that a check's JSON may have: the fields of ``Check`` in check_runner.py."""
    text = (release.path / _SCRIPTS / "check_runner.py").read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and node.name == "Check":
            return [
                item.target.id
                for item in node.body
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
            ]
    raise NotHeld("check_runner.py has no class Check")


def _with_null_maps(release: Release) -> Object:
    """The chart writes ``null`` for an option that is a map."""
    values = release.values("slurm-cluster")
    return {key: {} if value is None else value for key, value in values.items()}


def _only_scripts_changed(
    tools: Tools, release: Release, objects: list[Object]
) -> Mapping[str, str]:
    """The data of the scripts' ConfigMap. All else must be as the chart makes it without Holdfast:
    slurm.conf and the pods stay as they are, so there is nothing that could come too early.
    """
    plain = {identity(item): item for item in tools.template(release, "slurm-cluster")}
    with_ours = {identity(item): item for item in objects}
    if plain.keys() != with_ours.keys():
        raise NotHeld(f"other objects: {sorted(plain.keys() ^ with_ours.keys())}")
    changed = [with_ours[name] for name in plain if with_ours[name] != plain[name]]
    if len(changed) != 1 or "checks.json" not in changed[0].get("data", {}):
        raise NotHeld(f"changed objects: {[identity(item) for item in changed]}")
    scripts: Mapping[str, str] = changed[0]["data"]
    return scripts


def _own_scripts_kept(release: Release, scripts: Mapping[str, str], hooks: str) -> None:
    for name in ("prolog.sh", "epilog.sh", "hc_program.sh"):
        own = (release.path / _SCRIPTS / name).read_text().rstrip()
        replaced = hooks == "wrapper" or name == "hc_program.sh"
        kept = scripts[f"soperator_{name}" if replaced else name].rstrip()
        if kept != own:
            raise NotHeld(f"hooks={hooks}: Soperator's {name} is not kept as it is")
        if replaced and "\nrun_hook " not in scripts[name]:
            raise NotHeld(f"hooks={hooks}: {name} does not run Holdfast")


def _checks_are_known(scripts: Mapping[str, str], known: list[str], hooks: str) -> None:
    """One unknown key makes the runner skip *all* checks."""
    entries = json.loads(scripts["checks.json"])
    ours = [entry for entry in entries if entry["reason_base"] == "holdfast"]
    for entry in ours:
        if not set(entry) <= set(known):
            raise NotHeld(f"checks.json: {entry['name']}: {sorted(set(entry) - set(known))}")
    if len(ours) != OWN_ENTRIES[hooks]:
        raise NotHeld(f"checks.json has {len(ours)} entries of Holdfast, not {OWN_ENTRIES[hooks]}")

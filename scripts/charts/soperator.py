"""Soperator: its chart, its CRDs and its check runner's keys."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

from testbed.kube.local import ApiServer

from charts.chart import Checkout, NotHeld, Object, accepted, template, unknown_keys
from holdfast.cli.render import render_text

_SCRIPTS = "helm/slurm-cluster/slurm_scripts"


def runner_keys(tree: Checkout) -> list[str]:
    """Keys that a check's JSON may have: the fields of ``Check`` in check_runner.py."""
    text = (tree.path / _SCRIPTS / "check_runner.py").read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and node.name == "Check":
            return [
                item.target.id
                for item in node.body
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
            ]
    raise NotHeld("check_runner.py has no class Check")


def health_check_states(tree: Checkout) -> list[str]:
    """Values that the CRD accepts for the health check's node state."""
    import yaml  # noqa: PLC0415 - a slow import, needed only here

    crd = yaml.safe_load(
        (tree.path / "config/crd/bases/slurm.nebius.ai_slurmclusters.yaml").read_text()
    )
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    state = spec["properties"]["healthCheckConfig"]["properties"]["healthCheckNodeState"]
    words: list[str] = state["items"]["properties"]["state"]["enum"]
    return words


def held(tree: Checkout, helm: str, folder: Path) -> dict[str, Any]:
    """The result for the record. Raises ``NotHeld``."""
    found: dict[str, Any] = {
        "project": "nebius/soperator",
        "commit": tree.commit,
        "chart": tree.chart("slurm-cluster")["version"],
        "check_keys": runner_keys(tree),
        "health_check_states": health_check_states(tree),
        "accepted": {},
    }
    crds = sorted((tree.path / "config/crd/bases").glob("slurm.nebius.ai_*.yaml"))
    with ApiServer(folder / "kube") as server:
        for gate in ("wrapper", "runner"):
            objects = _cluster(tree, helm, folder, gate)
            found["accepted"][gate] = accepted(server, crds, objects)
            _checks_are_plain(objects, found["check_keys"])
        flux = _written(folder / "flux.yaml", render_text("soperator", **{"as": "flux"}))
        server.kubectl("create", "namespace", "flux-system")
        server.kubectl("create", "--dry-run=server", "--validate=strict", "-f", str(flux))
        found["accepted"]["nodeset"] = accepted(server, (), _nodeset(tree, helm, folder))
    return found


def _cluster(tree: Checkout, helm: str, folder: Path, gate: str) -> list[Object]:
    import yaml  # noqa: PLC0415 - see above

    text = render_text("soperator", gate=gate)
    unknown = unknown_keys(yaml.safe_load(text), _with_null_maps(tree.values("slurm-cluster")))
    if unknown:
        raise NotHeld(f"soperator {gate}: the chart has no {', '.join(unknown)}")
    values = _written(folder / f"soperator-{gate}.yaml", text)
    objects = template(helm, tree, "slurm-cluster", [values])
    cluster = next(item for item in objects if item["kind"] == "SlurmCluster")
    program = cluster["spec"]["healthCheckConfig"]["healthCheckProgram"]
    if program != "/opt/slurm_scripts/holdfast_health_check.sh":
        raise NotHeld(f"soperator {gate}: the chart made {program} the health check")
    return objects


def _with_null_maps(values: Object) -> Object:
    """The chart writes ``null`` for an option that is a map."""
    return {key: {} if value is None else value for key, value in values.items()}


def _checks_are_plain(objects: list[Object], known: list[str]) -> None:
    """Check the keys of Holdfast's checks: one unknown key makes the runner skip *all* checks."""
    scripts = next(
        item["data"]
        for item in objects
        if item["kind"] == "ConfigMap" and "checks.json" in item.get("data", {})
    )
    entries = [entry for entry in json.loads(scripts["checks.json"]) if "holdfast" in entry["name"]]
    for entry in entries:
        if list(entry) and set(entry) != set(known):
            raise NotHeld(f"checks.json: {entry['name']}: {sorted(set(entry) ^ set(known))}")
    if len(entries) != 5:
        raise NotHeld(f"checks.json has {len(entries)} entries of Holdfast, not 5")


def _nodeset(tree: Checkout, helm: str, folder: Path) -> list[Object]:
    """Holdfast's nodeset merged into the chart's first one, as an administrator does it."""
    import yaml  # noqa: PLC0415 - see above

    theirs = tree.values("nodesets")["nodesets"][0]
    (ours,) = yaml.safe_load(render_text("soperator-nodeset"))["nodesets"]
    unknown = unknown_keys(ours, theirs)
    if unknown:
        raise NotHeld(f"soperator-nodeset: the chart has no {', '.join(unknown)}")
    # The CRD rejects the chart's own example; this is the value of Nebius' recipe.
    theirs["slurmd"]["volumes"]["spool"] = {"emptyDir": {}}
    mounts = theirs["slurmd"]["volumes"].setdefault("customVolumeMounts", [])
    mounts += ours["slurmd"]["volumes"]["customVolumeMounts"]
    values = _written(folder / "nodesets.yaml", yaml.safe_dump({"nodesets": [theirs]}))
    return template(helm, tree, "nodesets", [values])


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path

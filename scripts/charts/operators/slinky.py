"""slurm-operator's real manager on a real API server: what it makes of Holdfast's values.

Somebody builds the manager beforehand; this module only runs it, with an API server on loopback and no node, so
that no pod starts. The chart's RestApi is left out: the manager would wait for its slurmrestd. So it drains no node
before it replaces a pod, as it does in a cluster.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from testbed.kube.local import ApiServer

from charts.chart import Object, Tools, establish
from charts.errors import NotHeld
from charts.operators import pages
from charts.operators.objects import differences, everything, must_be_equal
from charts.operators.person import Person
from charts.operators.running import Running
from charts.operators.soperator import settings
from charts.release import Release

_SPACE = "slurm"
_OPTIONS = ("--metrics-addr=0", "--health-addr=0", f"--namespaces={_SPACE}")
_KEYS = ("Epilog", "HealthCheck", "JobRequeue", "KillOnBadExit", "Prolog", "SchedulerParameters")
_PROJECT, _PAGE = "slinky", "slinky.md"
_CHART = "oci://ghcr.io/slinkyproject/charts/slurm"
_NODESET = "gpu"
_SIGN_IN = "kubectl apply -f - <<'END'"
"""The begin of the page's command that makes the bridge's token."""
_SETTLE_S = 15.0


def reconciled(tools: Tools, release: Release, program: Path) -> dict[str, Any]:
    """slurm.conf's lines, the scripts, the worker's pod and the bridge's token that the manager makes, and what is
    left of them after the removal. The values go in and out as docs/howto/slinky.md says, with Helm.

    Raises ``NotHeld`` if the manager ends or does not make them within 90 s.
    """
    own = {"nodesets": {"slinky": {"enabled": False}, _NODESET: {"enabled": True, "replicas": 1}}}
    with ApiServer(tools.folder / "kube-slinky-manager") as server:
        establish(server, release.crds("slinky.slurm.net"))
        server.kubectl("create", "namespace", _SPACE)
        server.kubectl("-n", _SPACE, "create", "serviceaccount", "default")
        chart = f"{release.path}/helm/slurm"
        person = Person(server, tools, {_CHART: chart}, _without_rest_api())
        person.write("your-values.yaml", yaml.safe_dump(own))
        person.types(f"helm -n {_SPACE} install slurm {chart} -f your-values.yaml")
        argv, log = (str(program), *_OPTIONS), tools.folder / "manager.log"
        with Running("slurm-operator's manager", argv, server, log) as running:
            running.wait("slurm.conf", lambda: "slurm.conf" in _config(server))
            running.wait("a worker pod", lambda: bool(_workers(server)))
            time.sleep(_SETTLE_S)
            before = everything(server)
            found = _in_and_out(person, server, running)
            must_be_equal("after the removal", _lasting(before), _lasting(everything(server)))
    return {"commit": release.commit, **found}


def _in_and_out(person: Person, server: ApiServer, running: Running) -> dict[str, Any]:
    """What was seen between the first command of the page and the last one of the removal."""
    person.types(pages.typed(_PROJECT, "apply"))
    running.wait("Holdfast's scripts", lambda: _has_ours(_config(server)))
    running.wait("a worker pod with Holdfast", lambda: _mounted(server) is True)
    time.sleep(_SETTLE_S)
    installed = everything(server)
    person.types(pages.typed(_PROJECT, "settings"))
    time.sleep(_SETTLE_S)
    settings_change = differences(installed, everything(server))
    (pod,) = _workers(server)
    person.types(pages.command(_PAGE, _SIGN_IN))
    running.wait("the token", lambda: bool(pages.secret(server, _SPACE, "slurm-auth")))
    conf, keys = _config(server), _keys(server)
    slurmctld = _names(server, "statefulsets.apps")
    person.types(pages.typed(_PROJECT, "remove"))
    person.types(pages.typed(_PROJECT, "remove the token"))
    running.wait("an end of the scripts", lambda: not _has_ours(_config(server)))
    running.wait("a worker pod without Holdfast", lambda: _mounted(server) is False)
    time.sleep(_SETTLE_S)
    (slurmd,) = (item for item in pod["spec"]["containers"] if item["name"] == "slurmd")
    lines = settings(conf["slurm.conf"])
    return {
        "slurm_conf": {key: value for key, value in lines.items() if key.startswith(_KEYS)},
        "scripts": sorted(name for name in conf if name.endswith("-holdfast")),
        "settings_change": settings_change,
        "slurmctld": slurmctld,
        "worker": pod["metadata"]["name"],
        "worker_labels": pod["metadata"]["labels"],
        "worker_env": sorted(item["name"] for item in slurmd.get("env", ())),
        "worker_args": slurmd.get("args", []),
        "worker_mounts": sorted(mount["mountPath"] for mount in slurmd["volumeMounts"]),
        "worker_init_containers": [item["name"] for item in pod["spec"]["initContainers"]],
        **keys,
    }


def _without_rest_api() -> str:
    """Reads objects and writes the others."""
    code = (
        "import sys, yaml; "
        'kept = [one for one in yaml.safe_load_all(sys.stdin) if one and one["kind"] != "RestApi"]; '
        "print(yaml.safe_dump_all(kept))"
    )
    return f"exec {sys.executable} -c '{code}'"


def _lasting(objects: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without what has another name each time: pods, and the operator's records of earlier templates."""
    return {
        name: one
        for name, one in objects.items()
        if not name.startswith(("Pod/", "ControllerRevision/"))
    }


def _has_ours(files: Mapping[str, str]) -> bool:
    return any(name.endswith("-holdfast") for name in files)


def _mounted(server: ApiServer) -> bool | None:
    """Whether the worker's pod has Holdfast's volumes. None while there are two pods, or none."""
    pods = _workers(server)
    if len(pods) != 1:
        return None
    return "holdfast" in {volume["name"] for volume in pods[0]["spec"]["volumes"]}


def _keys(server: ApiServer) -> dict[str, Any]:
    """The Secrets that the page names: the key for a side-car, and the user of the token."""
    key = pages.secret(server, _SPACE, "slurm-auth-slurm")
    if set(key) != {"slurm.key"}:
        raise NotHeld(f"the Secret slurm-auth-slurm has {sorted(key)}, not slurm.key")
    token = pages.secret(server, _SPACE, "slurm-auth")
    if set(token) != {"token"}:
        raise NotHeld(f"the Secret slurm-auth has {sorted(token)}, not token")
    body = token["token"].split(b".")[1]
    claims = json.loads(base64.urlsafe_b64decode(body + b"=" * (-len(body) % 4)))
    return {"slurm_key_bytes": len(key["slurm.key"]), "token_user": claims["sun"]}


def _config(server: ApiServer) -> Mapping[str, str]:
    """File → text of all ConfigMaps of the cluster."""
    text = server.kubectl("-n", _SPACE, "get", "configmaps", "-o", "json")
    return {
        name: content
        for item in json.loads(text)["items"]
        for name, content in (item.get("data") or {}).items()
    }


def _workers(server: ApiServer) -> list[Object]:
    text = server.kubectl("-n", _SPACE, "get", "pods", "-o", "json")
    items: list[Object] = json.loads(text)["items"]
    return [item for item in items if f"-{_NODESET}-" in item["metadata"]["name"]]


def _names(server: ApiServer, kind: str) -> list[str]:
    found = server.kubectl("-n", _SPACE, "get", kind, "-o", "name").split()
    return [name.rpartition("/")[2] for name in found]

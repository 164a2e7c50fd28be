"""slurm-operator's real manager on a real API server: what it makes of Holdfast's values.

Somebody builds the manager beforehand; this module only runs it, with an API server on loopback and no node, so
that no pod starts. The chart's RestApi is left out: the manager would wait for its slurmrestd.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from testbed.kube.local import ApiServer

from charts.chart import Object, Tools, establish, served
from charts.digest import SLINKY
from charts.errors import NotHeld
from charts.operators import pages
from charts.operators.running import Running
from charts.operators.soperator import settings
from charts.release import Release
from holdfast.cli.commands.render import render_text

_SPACE = "slurm"
_OPTIONS = ("--metrics-addr=0", "--health-addr=0", f"--namespaces={_SPACE}")
_KEYS = ("Epilog", "HealthCheck", "JobRequeue", "KillOnBadExit", "Prolog", "SchedulerParameters")
_SIGN_IN = "kubectl apply -f - <<'END'"
"""The begin of the page's command that makes the bridge's token."""


def reconciled(tools: Tools, release: Release, program: Path) -> dict[str, Any]:
    """slurm.conf's lines, the scripts, the worker's pod and the bridge's token that the manager makes.

    Raises ``NotHeld`` if the manager ends or does not make them within 90 s.
    """
    own = {"nodesets": {"slinky": {"enabled": True, "replicas": 1}}}
    with ApiServer(tools.folder / "kube-slinky-manager") as server:
        establish(server, release.crds("slinky.slurm.net"))
        server.kubectl("create", "namespace", _SPACE)
        server.kubectl("-n", _SPACE, "create", "serviceaccount", "default")
        values = (yaml.safe_dump(own), render_text("slinky", **SLINKY))
        _apply(server, tools.template(release, "slurm", *values, name="slurm"))
        argv, log = (str(program), *_OPTIONS), tools.folder / "manager.log"
        with Running("slurm-operator's manager", argv, server, log) as running:
            running.wait("slurm.conf", lambda: "slurm.conf" in _config(server))
            running.wait("a worker pod", lambda: bool(_workers(server)))
            (pod,) = _workers(server)
            pages.run(pages.command("slinky.md", _SIGN_IN), server, tools.kubectl)
            running.wait("the token", lambda: bool(pages.secret(server, _SPACE, "slurm-auth")))
            conf = _config(server)
            keys = _keys(server)
            slurmctld = _names(server, "statefulsets.apps")
    (slurmd,) = (item for item in pod["spec"]["containers"] if item["name"] == "slurmd")
    lines = settings(conf["slurm.conf"])
    return {
        "commit": release.commit,
        "slurm_conf": {key: value for key, value in lines.items() if key.startswith(_KEYS)},
        "scripts": sorted(name for name in conf if name.endswith("-holdfast")),
        "slurmctld": slurmctld,
        "worker_env": sorted(item["name"] for item in slurmd.get("env", ())),
        "worker_args": slurmd.get("args", []),
        "worker_mounts": sorted(mount["mountPath"] for mount in slurmd["volumeMounts"]),
        "worker_init_containers": [item["name"] for item in pod["spec"]["initContainers"]],
        **keys,
    }


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
    return [item for item in items if "slinky" in item["metadata"]["name"]]


def _names(server: ApiServer, kind: str) -> list[str]:
    found = server.kubectl("-n", _SPACE, "get", kind, "-o", "name").split()
    return [name.rpartition("/")[2] for name in found]


def _apply(server: ApiServer, objects: Sequence[Object]) -> None:
    items = [item for item in served(server, objects) if item["kind"] != "RestApi"]
    for item in items:
        item["metadata"]["namespace"] = _SPACE
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    server.kubectl("apply", "-n", _SPACE, "--server-side", "-f", "-", stdin=text)

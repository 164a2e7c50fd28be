"""Soperator's real manager on a real API server: what it makes of Holdfast's values.

Somebody builds the manager beforehand; this module only runs it, with an API server on loopback and
no node, so that no pod starts. It first reconciles a cluster without Holdfast, then the same with
Holdfast's values, and compares slurm.conf and the worker pods' template.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from testbed.kube.local import ApiServer, KubectlError

from charts import nodesets
from charts.chart import Object, Tools, establish, served
from charts.errors import NotHeld
from charts.nodesets import CLUSTER
from charts.operators import pages
from charts.operators.running import Running
from charts.release import Release
from holdfast.cli.commands.render import render_text

_SETTLE_S = 15.0
_OF_KEY = "kubectl -n soperator get secret soperator-munge"
"""The begin of the page's command that copies the key of munge."""
_STATEFUL_SETS = "statefulsets.apps.kruise.io"
_OPTIONS = (
    "-controllers=cluster,nodeset", "-leader-elect=false", f"-operator-namespace={CLUSTER}",
    "-metrics-bind-address=0", "-health-probe-bind-address=0",
)  # fmt: skip
_KRUISE = (
    ("v1beta1", "StatefulSet", "Namespaced"),
    ("v1alpha1", "DaemonSet", "Namespaced"),
    ("v1alpha1", "ResourceDistribution", "Cluster"),
)
"""What the manager creates of OpenKruise's kinds; here without a schema and without a controller."""


def reconciled(tools: Tools, release: Release, program: Path) -> dict[str, Any]:
    """slurm.conf's lines and the worker's mounts with Holdfast, and what differs without it.

    Raises ``NotHeld`` if the manager ends or does not reconcile within 90 s.
    """
    with ApiServer(tools.folder / "kube-manager") as server:
        establish(server, release.crds("slurm.nebius.ai"))
        for version, kind, scope in _KRUISE:
            server.kubectl("apply", "-f", "-", stdin=json.dumps(_kruise(version, kind, scope)))
        server.kubectl("create", "namespace", CLUSTER)
        _apply(server, tools.template(release, "slurm-cluster", _cluster(release), name=CLUSTER))
        _apply(
            server, tools.template(release, "nodesets", nodesets.values(release, with_ours=False))
        )
        argv, log = (str(program), *_OPTIONS), tools.folder / "manager.log"
        off = {"ENABLE_WEBHOOKS": "false"}
        with Running("Soperator's manager", argv, server, log, off) as running:
            cluster = _Cluster(server)
            running.wait("its job populate-jail", cluster.complete_populate_jail)
            running.wait("slurm.conf and a StatefulSet", cluster.is_up)
            before = cluster.state()
            ours = (_cluster(release), render_text("soperator"))
            _apply(server, tools.template(release, "slurm-cluster", *ours, name=CLUSTER))
            time.sleep(_SETTLE_S)
            after = cluster.state()
            _apply(server, tools.template(release, "nodesets", nodesets.values(release)))
            running.wait("the mount of /var/lib/holdfast", cluster.has_state_folder)
            last = cluster.state()
            munge_key_bytes = _copied_key(server, tools)
    return {
        "commit": release.commit,
        "slurm_conf": {
            key: value
            for key, value in last["conf"].items()
            if re.match("Prolog|Epilog|HealthCheck|JobRequeue|KillOnBad|SchedulerPara", key)
        },
        "slurm_conf_changes": _differences(before["conf"], last["conf"]),
        "values_change_worker_pods": before["pods"] != after["pods"],
        "scripts": sorted(set(last["scripts"]) - set(before["scripts"])),
        "changed_scripts": _differences(before["scripts"], after["scripts"], new=False),
        "worker_mounts": last["mounts"],
        "worker_labels": last["labels"],
        "munge_key_bytes": munge_key_bytes,
    }


def _cluster(release: Release) -> str:
    """Values of a whole cluster: the chart's defaults name node filters that it does not define."""
    filters = release.values("slurm-cluster")["k8sNodeFilters"]
    return yaml.safe_dump(
        {"clusterName": CLUSTER, "k8sNodeFilters": [*filters, {"name": "system"}]}
    )


def _kruise(version: str, kind: str, scope: str) -> Object:
    plural = f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served_version = {
        "name": version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": anything},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.apps.kruise.io"},
        "spec": {
            "group": "apps.kruise.io",
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [served_version],
        },
    }


def _apply(server: ApiServer, objects: Sequence[Object]) -> None:
    items = [item for item in served(server, objects) if "coreos.com" not in item["apiVersion"]]
    for item in items:
        item["metadata"]["namespace"] = CLUSTER
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    server.kubectl("apply", "-n", CLUSTER, "--server-side", "-f", "-", stdin=text)


def _copied_key(server: ApiServer, tools: Tools) -> int:
    """The length of the key of munge, as the page's command copies it for the bridge."""
    server.kubectl("create", "namespace", "holdfast")
    pages.run(pages.command("install-bridge.md", _OF_KEY), server, tools.kubectl)
    made = pages.secret(server, CLUSTER, f"{CLUSTER}-munge")
    copied = pages.secret(server, "holdfast", "slurm-auth")
    if not made or copied != made or set(made) != {"munge.key"}:
        raise NotHeld(
            f"the copy of munge's key: {sorted(copied)}, and Soperator has {sorted(made)}"
        )
    return len(made["munge.key"])


class _Cluster:
    """The cluster's objects on the server."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    def complete_populate_jail(self) -> bool:
        """Marks the job that fills the jail complete: no pod can run it here."""
        jobs = self._get("jobs")
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": now}
            for kind in ("SuccessCriteriaMet", "Complete")
        ]
        status = {"startTime": now, "completionTime": now, "succeeded": 1, "conditions": conditions}
        for job in jobs:
            name, patch = job["metadata"]["name"], json.dumps({"status": status})
            argv = ("patch", "job", name, "-n", CLUSTER, "--subresource=status", "--type=merge")
            self._server.kubectl(*argv, "-p", patch)
        return bool(jobs)

    def is_up(self) -> bool:
        return bool(self._conf()) and bool(self._get(_STATEFUL_SETS))

    def has_state_folder(self) -> bool:
        return "/var/lib/holdfast" in self.state()["mounts"]

    def state(self) -> dict[str, Any]:
        """slurm.conf, the scripts, and of the workers the pods' template and labels, and slurmd's mounts."""
        (workers,) = (
            item for item in self._get(_STATEFUL_SETS) if "worker" in item["metadata"]["name"]
        )
        pod = workers["spec"]["template"]
        template = pod["spec"]
        (slurmd,) = (item for item in template["containers"] if item["name"] == "slurmd")
        return {
            "conf": settings(self._conf()),
            "scripts": self._config_map("slurm-scripts"),
            "pods": template,
            "mounts": sorted(mount["mountPath"] for mount in slurmd["volumeMounts"]),
            "labels": pod["metadata"]["labels"],
        }

    def _conf(self) -> str:
        return "\n".join(self._config_map("slurm-configs").get(name, "") for name in _CONF)

    def _config_map(self, end: str) -> Mapping[str, str]:
        maps = (item for item in self._get("configmaps") if item["metadata"]["name"].endswith(end))
        data: Mapping[str, str] = next(maps, {"data": {}})["data"]
        return data

    def _get(self, kind: str) -> list[Object]:
        try:
            text = self._server.kubectl("get", kind, "-n", CLUSTER, "-o", "json")
        except KubectlError as error:
            raise NotHeld(f"the API server: {error}") from None
        items: list[Object] = json.loads(text)["items"]
        return items


_CONF = ("slurm.conf", "slurm_base.conf.noedit", "slurm_k8s_extra.conf.noedit")
"""In the order in which Slurm reads them; up to Soperator 4.1 the first holds all of it."""


def settings(text: str) -> dict[str, str]:
    """slurm.conf's lines by key. Of a key given twice the last one counts; nodes are left out."""
    pairs = (line.split("=", 1) for line in text.splitlines() if re.match(r"\w+=", line))
    return {key: value for key, value in pairs if key not in ("NodeName", "NodeSet")}


def _differences(
    before: Mapping[str, str], after: Mapping[str, str], *, new: bool = True
) -> list[str]:
    keys = before.keys() | after.keys() if new else before.keys()
    return sorted(key for key in keys if before.get(key) != after.get(key))

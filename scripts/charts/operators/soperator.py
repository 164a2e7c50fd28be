"""Soperator's real manager on a real API server: what it makes of Holdfast's values.

Somebody builds the manager beforehand; this module only runs it, with an API server on loopback and
no node, so that no pod starts. It first reconciles a cluster without Holdfast, then the same with
Holdfast's values, then again without, and slurm.conf, the worker pods' template and all objects are compared.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from testbed.kube.local import ApiServer, KubectlError

from charts import nodesets
from charts.chart import Object, Tools, establish
from charts.errors import NotHeld
from charts.nodesets import CLUSTER
from charts.operators import pages
from charts.operators.flux import Flux
from charts.operators.objects import Kind, differences, everything, must_be_equal, serve
from charts.operators.person import Person
from charts.operators.running import Running
from charts.release import Release

_SETTLE_S = 15.0
_OF_KEY = "kubectl -n soperator get secret soperator-munge"
"""The begin of the page's command that copies the key of munge."""
_STATEFUL_SETS = "statefulsets.apps.kruise.io"
_OPTIONS = (
    "-controllers=cluster,nodeset", "-leader-elect=false", f"-operator-namespace={CLUSTER}",
    "-metrics-bind-address=0", "-health-probe-bind-address=0",
)  # fmt: skip
_KINDS = (
    Kind(group="apps.kruise.io", version="v1beta1", kind="StatefulSet"),
    Kind(group="apps.kruise.io", version="v1alpha1", kind="DaemonSet"),
    Kind(group="apps.kruise.io", version="v1alpha1", kind="ResourceDistribution", namespaced=False),
    Kind(group="monitoring.coreos.com", version="v1", kind="ServiceMonitor"),
    Kind(group="monitoring.coreos.com", version="v1", kind="PodMonitor"),
)
"""What the charts and the manager create of others' kinds; here without a controller."""
_PROJECT = "soperator"


def reconciled(tools: Tools, release: Release, program: Path, flux: Path | None) -> dict[str, Any]:
    """slurm.conf's lines and the worker's mounts with Holdfast, what differs without it, and what is left of it.

    The values go in and out as docs/howto/soperator.md says: with Helm, and with Flux's helm-controller if there
    is one. Raises ``NotHeld`` if the manager ends or does not reconcile within 90 s.
    """
    with ApiServer(tools.folder / "kube-manager") as server:
        establish(server, release.crds("slurm.nebius.ai"))
        serve(server, *_KINDS)
        for namespace in (CLUSTER, "holdfast"):
            server.kubectl("create", "namespace", namespace)
        chart = f"{release.path}/helm/slurm-cluster"
        person = Person(server, tools, {"soperator CHART": f"soperator {chart}"})
        person.write("your-values.yaml", _own(release))
        person.types(f"helm -n {CLUSTER} install soperator {chart} -f your-values.yaml")
        _nodesets(person, release, with_ours=False)
        argv, log = (str(program), *_OPTIONS), tools.folder / "manager.log"
        off = {"ENABLE_WEBHOOKS": "false"}
        with Running("Soperator's manager", argv, server, log, off) as running:
            cluster = _Cluster(server)
            running.wait("its job populate-jail", cluster.complete_populate_jail)
            running.wait("slurm.conf and a StatefulSet", cluster.is_up)
            time.sleep(_SETTLE_S)
            before = everything(server)
            found = _in_and_out(person, server, tools, release, running)
            must_be_equal("after the removal", before, everything(server))
            if flux is not None:
                found["flux"] = _with_flux(person, server, tools, release, flux)
    return {"commit": release.commit, **found}


def _in_and_out(
    person: Person, server: ApiServer, tools: Tools, release: Release, running: Running
) -> dict[str, Any]:
    """What was seen between the first command of the page and the last one of the removal."""
    cluster = _Cluster(server)
    before = cluster.state()
    apply = pages.typed(_PROJECT, "apply")
    person.types(pages.typed(_PROJECT, "render") + apply)
    time.sleep(_SETTLE_S)
    after = cluster.state()
    person.types(pages.typed(_PROJECT, "settings") + apply)
    settings_change = differences(after["scripts"], cluster.state()["scripts"])
    _nodesets(person, release, with_ours=True)
    running.wait("the mount of /var/lib/holdfast", lambda: cluster.has_state_folder)
    last = cluster.state()
    munge_key_bytes = _copied_key(server, tools)
    person.types(pages.typed(_PROJECT, "remove"))
    _nodesets(person, release, with_ours=False)
    running.wait("an end of the mount", lambda: not cluster.has_state_folder)
    time.sleep(_SETTLE_S)
    changed = differences(before["scripts"], after["scripts"])
    return {
        "slurm_conf": {
            key: value
            for key, value in last["conf"].items()
            if re.match("Prolog|Epilog|HealthCheck|JobRequeue|KillOnBad|SchedulerPara", key)
        },
        "slurm_conf_changes": differences(before["conf"], last["conf"]),
        "values_change_worker_pods": before["pods"] != after["pods"],
        "scripts": sorted(set(last["scripts"]) - set(before["scripts"])),
        "changed_scripts": [name for name in changed if name in before["scripts"]],
        "settings_change": settings_change,
        "worker_mounts": last["mounts"],
        "worker_labels": last["labels"],
        "munge_key_bytes": munge_key_bytes,
    }


def _with_flux(
    person: Person, server: ApiServer, tools: Tools, release: Release, program: Path
) -> dict[str, Any]:
    """The same with the HelmRelease of Soperator's chart soperator-fluxcd, in place of the release of Helm."""
    person.types(f"helm -n {CLUSTER} uninstall soperator")
    cluster = _Cluster(server)
    took: dict[str, float] = {}
    with Flux(server, tools, release, program) as flux:
        flux.wait(1)
        time.sleep(_SETTLE_S)
        before = everything(server)
        for name, what in (
            ("values", "apply with Flux"),
            ("removal", "remove with Flux"),
        ):
            began = time.monotonic()
            person.types(pages.typed(_PROJECT, what))
            flux.wait(2 + len(took))
            took[name] = round(time.monotonic() - began, 1)
            if ("holdfast.yaml" in cluster.state()["scripts"]) != (name == "values"):
                raise NotHeld(f"after the {name} Flux left other scripts")
        time.sleep(_SETTLE_S)
        must_be_equal("after the removal with Flux", before, everything(server))
    return {"seconds": took}


def _nodesets(person: Person, release: Release, *, with_ours: bool) -> None:
    person.write("nodesets.yaml", nodesets.values(release, with_ours=with_ours))
    helm = f"helm -n {CLUSTER} upgrade --install soperator-nodesets"
    person.types(f"{helm} {release.path}/helm/nodesets -f nodesets.yaml")


def _own(release: Release) -> str:
    """Values of a whole cluster: the chart's defaults name node filters that it does not define."""
    filters = release.values("slurm-cluster")["k8sNodeFilters"]
    return yaml.safe_dump(
        {"clusterName": CLUSTER, "k8sNodeFilters": [*filters, {"name": "system"}]}
    )


def _copied_key(server: ApiServer, tools: Tools) -> int:
    """The length of the key of munge, as the page's command copies it for the bridge."""
    pages.run(pages.command("install-bridge.md", _OF_KEY), server, tools.kubectl)
    made = pages.secret(server, CLUSTER, f"{CLUSTER}-munge")
    copied = pages.secret(server, "holdfast", "slurm-auth")
    if not made or copied != made or set(made) != {"munge.key"}:
        raise NotHeld(
            f"the copy of munge's key: {sorted(copied)}, and Soperator has {sorted(made)}"
        )
    server.kubectl("-n", "holdfast", "delete", "secret", "slurm-auth")
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

    @property
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

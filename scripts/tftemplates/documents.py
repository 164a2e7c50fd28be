"""Which document becomes which Terraform template, and what Terraform sets in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

import yaml

from holdfast.monitoring import documents as monitoring
from holdfast.monitoring.dashboards import DASHBOARDS
from holdfast.render import extra_settings as extra
from holdfast.render import templates
from holdfast.render.document import Document
from holdfast.version import VERSION
from k8s_bridge.render import pod, rights
from slurm_hooks import checks
from slurm_hooks.deploy import (
    PACKAGE,
    configuration,
    daemonset,
    slinky,
    slurm_conf,
    soperator,
    systemd,
)
from tftemplates.marks import block, mark, plain, template

CLUSTER = "modules/cluster/manifests"

TAKEN_BY_GROUP = {"bridge.worker_pods_namespace": "worker_pods"}
"""Keys of ``holdfast.yaml`` that Terraform and Helm set with the objects that they need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A document and what differs from its own context.

    ``path``: below ``terraform/``; a folder where each Kubernetes object gets a file of its own.
    ``fixed``: values that Terraform does not set; all others are marks. ``given``: what replaces
    the document's own context, which is left out where it cannot be made from marks.
    """

    document: Document
    path: str
    fixed: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, object] = field(default_factory=dict)
    own_context: bool = True

    def marked(self) -> str:
        values = {name: self.fixed.get(name, mark(name)) for name in self.document.values}
        context = self.document.context(values) if self.own_context else {}
        return templates.render(
            self.document.package, self.document.template, {**values, **context, **self.given}
        )


def _rules(of: str) -> list[Mapping[str, object]]:
    (group,) = monitoring.rule_groups(of, mark("drained_percent"))
    return [{**group, "labels": mark("labels")}]


OBJECTS = (
    Source(document=rights.RBAC, path=f"{CLUSTER}/rights", fixed={"create_namespace": "true"}),
    Source(
        document=rights.WORKLOADS_RBAC,
        path=f"{CLUSTER}/workloads",
        given={"workload_namespaces": [mark("workload_namespace")]},
    ),
    Source(
        document=rights.WORKER_PODS,
        path=f"{CLUSTER}/worker_pods",
        fixed={"workers": ""},
        given={"selector": mark("labels")},
    ),
    Source(
        document=pod.DEPLOYMENT,
        path=f"{CLUSTER}/bridge",
        fixed={"nodes": "", "runs_on": "", "rest_url": "", "extra_configuration": ""},
        given={name: mark(name) for name in ("token_file", "join", "runs_on", "rest_url")}
        | {name: mark(f"indent(4, {name})") for name in ("slurm_more", "more")}
        | {"pairs": mark("nodes"), "auth_image": mark("auth_image")}
        | {
            "when": {name: block(f'auth == "{name}"') for name in pod.AUTH}
            | {pod.SIDE_CAR: block('auth != "token"')}
        },
    ),
    Source(
        document=pod.NETWORK_POLICY,
        path=f"{CLUSTER}/network",
        given={"ports": mark("ports")},
        own_context=False,
    ),
    Source(
        document=pod.OFF,
        path=f"{CLUSTER}/off",
        given={"switches": mark("switches")},
    ),
    Source(
        document=daemonset.DAEMONSET,
        path=f"{CLUSTER}/agent",
        given={
            "script": mark("indent(4, chomp(script))") + "\n",
            "digest": mark("digest"),
            "node_selector": mark("node_selector"),
            "silent_periods": mark("silent_periods"),
        },
        own_context=False,
    ),
    *(
        Source(
            document=monitoring.RULES,
            path=f"{CLUSTER}/{folder}",
            given={"operator": True, "groups": _rules(of)},
            own_context=False,
        )
        for of, folder in (("agent", "alerts"), ("bridge", "bridge_alerts"))
    ),
    Source(
        document=monitoring.BRIDGE_MONITOR,
        path=f"{CLUSTER}/bridge_scrape",
        given={"labels": mark("labels")},
        own_context=False,
    ),
    Source(
        document=monitoring.AGENT_MONITOR,
        path=f"{CLUSTER}/agent_scrape",
        given={"labels": mark("labels"), "pods": mark("pods")},
        own_context=False,
    ),
    *(
        Source(
            document=monitoring.DASHBOARD,
            path=f"{CLUSTER}/dashboards",
            fixed={"which": which},
            given={
                "configmap": True,
                "labels": mark(f"labels.{which}"),
                "json": monitoring.dashboard_json(which),
            },
            own_context=False,
        )
        for which in DASHBOARDS
    ),
)
"""Kubernetes objects of modules/cluster."""


def objects(source: Source) -> Iterator[tuple[str, str]]:
    """Path below ``terraform/`` and text of each Kubernetes object of a document."""
    for text in source.marked().split("\n---\n"):
        read = yaml.safe_load(text)
        kind, name = read["kind"].lower(), read["metadata"]["name"]
        # Without the mark at the end of a name that Terraform sets in part.
        file = kind if kind == "namespace" else f"{kind}-{plain(name).strip('-')}"
        yield f"{source.path}/{file}.yaml.tftpl", template(_end(text))


def _configuration(indent: int) -> Mapping[str, object]:
    """What Terraform sets in holdfast.yaml: the values, and each check's entry as a whole.

    ``indent``: of that file in the document. The lines of further settings follow the budget.
    """
    context = configuration.context(
        {name: one.default for name, one in configuration.VALUES.items()}
    )
    written = cast("Iterable[Mapping[str, str]]", context["checks"])
    width = max(map(len, checks.CATALOGUE)) + 1
    entries = [
        {**check, "entry": f"{f'{name}:':{width}} {mark(f'checks.{name}')}"}
        for name, check in zip(checks.CATALOGUE, written, strict=True)
    ]
    return {
        **{name: mark(name) for name in configuration.VALUES},
        "mounts": [mark("mounts")],
        "budget": mark("budget"),
        "more": mark(f"indent({indent}, more)"),
        "checks": entries,
    }


def _defaults(document: Document) -> Mapping[str, str]:
    """The defaults of values that have one."""
    return {name: value.default for name, value in document.values.items()}


TEXTS = (
    Source(
        document=configuration.FILE,
        path="modules/configuration/holdfast.yaml.tftpl",
        fixed=_defaults(configuration.FILE),
        given=_configuration(0),
    ),
    Source(
        document=soperator.NODESET,
        path="modules/soperator/values/nodeset.yaml.tftpl",
    ),
    Source(
        document=slinky.VALUES,
        path="modules/slinky/values.yaml.tftpl",
        fixed=_defaults(slinky.VALUES),
        given={
            **_configuration(8),
            **{name: mark(name) for name in ("image", "nodeset", "health_check_interval_s")},
        },
    ),
    Source(
        document=slurm_conf.LINES,
        path="modules/slurm/slurm.conf.tftpl",
        fixed={"onto": ""},
    ),
    Source(
        document=systemd.UNIT,
        path="modules/slurm/holdfast-agent.service.tftpl",
    ),
)
"""Documents that are one file each."""


def texts() -> Iterator[tuple[str, str]]:
    """Path below ``terraform/`` and text of each document of ``TEXTS``."""
    for source in TEXTS:
        yield source.path, template(_end(source.marked()))


def soperator_values() -> str:
    """The ConfigMap that Flux merges, with one more entry for each kill switch.

    The entries of kill switches come last: what one of them adds is repeated for each.
    """
    fixed = {**_defaults(soperator.VALUES), "as": "flux"}
    files = list(soperator.files(fixed["hooks"]))
    given = {**_configuration(12), "files": files}
    source = Source(document=soperator.VALUES, path="", fixed=fixed, given=given)
    without = source.marked()
    files.append(soperator.switch(mark("name")))
    text = source.marked()
    if not text.startswith(without.rstrip("\n")):
        raise ValueError("the kill switches are not the end of soperator/values.yaml.j2")
    entry = template(_end(text[len(without.rstrip("\n")) + 1 :]))
    return f"{template(_end(without))}%{{ for name in switches ~}}\n{entry}%{{ endfor ~}}\n"


def catalogue() -> str:
    """The names of all checks, and what ``extra_configuration`` may contain, in JSON."""
    taken = {**configuration.TAKEN, "checks": "checks"}
    names = {"checks": list(checks.CATALOGUE), "keys": extra.keys(), "taken": taken}
    return json.dumps(names, indent=2) + "\n"


def cluster_names() -> str:
    """For modules/cluster, in JSON: the version of Holdfast (a label of objects whose labels Terraform
    sets), and what the bridge's ``extra_configuration`` may contain.
    """
    keys = {name: extra.keys()[name] for name in pod.READ}
    names = {"version": VERSION, "keys": keys, "taken": {**pod.TAKEN, **TAKEN_BY_GROUP}}
    return json.dumps(names, indent=2) + "\n"


def agent_script() -> str:
    """The script of the DaemonSet's pod."""
    given = {"home": mark("home"), "config": mark("config"), "programs": [mark("programs")]}
    return template(templates.render(PACKAGE, "daemonset_agent.sh.j2", given))


def _end(text: str) -> str:
    return text.rstrip("\n") + "\n"

"""What can be set in the chart: the values of ``holdfast render``'s documents, by their names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from holdfast.monitoring import documents as monitoring
from holdfast.render import extra_settings
from holdfast.render.document import BOOL, Document, Value
from k8s_bridge.render import pod, rights
from slurm_hooks.deploy import daemonset


class Kind(Enum):
    """How a value is written in values.yaml."""

    TEXT = "string"
    SWITCH = "boolean"
    INTEGER = "integer"
    NUMBER = "number"
    PAIRS = "object"
    WORDS = "array"
    SECTIONS = "sections of holdfast.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A value of the chart. ``path``: its keys in values.yaml. ``of``: the value of the document."""

    path: tuple[str, ...]
    of: Value
    kind: Kind

    @property
    def name(self) -> str:
        """As in ``helm --set``."""
        return ".".join(self.path)

    @property
    def expression(self) -> str:
        """In a template of Helm."""
        return f".Values.{self.name}"

    @property
    def default(self) -> Any:
        """In the type of values.yaml."""
        text = self.of.default
        words = [word for word in text.split(",") if word]
        match self.kind:
            case Kind.SWITCH:
                return text == "true"
            case Kind.INTEGER:
                return int(text)
            case Kind.NUMBER:
                return float(text) if "." in text else int(text)
            case Kind.SECTIONS:
                return {}
            case Kind.PAIRS:
                return dict(word.split("=", 1) for word in words)
            case Kind.WORDS:
                return [int(word) if word.isdecimal() else word for word in words]
            case _:
                return text

    @property
    def schema(self) -> dict[str, Any]:
        """Its entry in values.schema.json. Its pattern is checked by a template, which tells the remedy."""
        types: Any = "object" if self.kind is Kind.SECTIONS else self.kind.value
        if self.kind is Kind.TEXT and re.fullmatch(self.of.pattern, "3"):
            types = ["string", "integer"]  # max_unavailable: 3, or 5%
        more: dict[str, Any] = {}
        if self.kind is Kind.PAIRS:
            more = {"additionalProperties": {"type": "string"}}
        elif self.kind is Kind.SECTIONS:
            more = {"additionalProperties": {"type": "object"}}
        elif self.kind is Kind.WORDS:
            more = {"items": {"type": ["string", "integer"]}, "uniqueItems": True}
        return {"type": types, "description": self.about, **more}

    @property
    def about(self) -> str:
        """What it means, in words for a YAML file: there a list needs no commas."""
        text = self.of.about
        for form in (
            "a file with ",
            "NAME=VALUE,…: ",
            "SLURM=KUBERNETES,…: ",
            ", with commas between",
        ):
            text = text.replace(form, "")
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A group of values. ``on``: whether it is enabled by default; None: it cannot be disabled.

    ``documents``: a value that several have stands once. ``skipped``: values that the chart sets itself.
    """

    name: str
    about: str
    on: bool | None
    documents: tuple[Document, ...]
    skipped: frozenset[str] = frozenset()
    renamed: Mapping[str, str] = field(default_factory=dict)

    def settings(self) -> Iterator[Setting]:
        seen = set()
        for document in self.documents:
            for name, value in document.values.items():
                if name not in seen and name not in self.skipped:
                    seen.add(name)
                    path = (*self.name.split("."), self.renamed.get(name, name))
                    yield Setting(path=path, of=value, kind=_kind(name, value))


_PAIRS = ("nodes", "runs_on", "labels", "pods", "workers")
_WORDS = ("ports", "slurmd", "switches")


def _kind(name: str, value: Value) -> Kind:
    if value == extra_settings.VALUE:
        return Kind.SECTIONS
    if name in _WORDS:
        return Kind.WORDS
    if name in _PAIRS or "=" in value.default:
        return Kind.PAIRS
    if value.pattern == BOOL:
        return Kind.SWITCH
    if value.default.isdecimal():
        return Kind.NUMBER if re.fullmatch(value.pattern, "0.5") else Kind.INTEGER
    return Kind.NUMBER if re.fullmatch(r"\d+\.\d+", value.default) else Kind.TEXT


_RELEASE = frozenset({"namespace", "cluster", "as", "of", "which"})

SECTIONS = (
    Section(
        name="bridge",
        about="the bridge between Slurm and Kubernetes, with its rights",
        on=True,
        documents=(pod.DEPLOYMENT,),
        skipped=_RELEASE | {"worker_pods_namespace"},
    ),
    Section(
        name="bridge.worker_pods",
        about="kubectl drain evicts a worker pod of Slurm only when its node is drained and free",
        on=False,
        documents=(rights.WORKER_PODS,),
        skipped=_RELEASE,
        renamed={"workers": "labels", "worker_namespace": "namespace"},
    ),
    Section(
        name="network_policy",
        about="limits the connections of the bridge's pod",
        on=True,
        documents=(pod.NETWORK_POLICY,),
        skipped=_RELEASE | {"metrics_port"},
    ),
    Section(
        name="agent",
        about="the agent by a DaemonSet; without it the health check of slurm.conf starts the agents",
        on=False,
        documents=(daemonset.DAEMONSET,),
        skipped=_RELEASE,
    ),
    Section(
        name="monitoring",
        about="objects for Prometheus' operator, whose definitions must exist",
        on=False,
        documents=(monitoring.RULES, monitoring.BRIDGE_MONITOR),
        skipped=_RELEASE,
    ),
    Section(
        name="monitoring.agent_pods",
        about="a PodMonitor for agents in the pods of Slurm's workers",
        on=False,
        documents=(monitoring.AGENT_MONITOR,),
        skipped=_RELEASE | {"labels", "interval_s"},
        renamed={"pods": "labels", "pods_namespace": "namespace"},
    ),
    Section(
        name="monitoring.dashboards",
        about="ConfigMaps with dashboards, for the side-car of Grafana's chart",
        on=False,
        documents=(),
    ),
)

CLUSTER = Setting(path=("cluster",), of=pod.DEPLOYMENT.values["cluster"], kind=Kind.TEXT)
KILL_SWITCHES = Setting(
    path=("kill_switches",),
    of=Value(rf"({pod.OFF.values['switches'].pattern})?", "", pod.OFF.values["switches"].about),
    kind=Kind.WORDS,
)
TOP = (CLUSTER, KILL_SWITCHES)


def values_yaml() -> str:
    """values.yaml: each value with its default and its meaning."""
    lines = [
        "# Values of Holdfast's chart. `holdfast render WHAT --values` explains the same names."
    ]
    for setting in TOP:
        lines += ["", f"# {setting.about}", f"{setting.path[-1]}: {_flow(setting.default)}"]
    for section in SECTIONS:
        indent = "  " * section.name.count(".")
        lines += ["", f"{indent}# {section.about}", f"{indent}{section.name.split('.')[-1]}:"]
        if section.on is not None:
            lines.append(f"{indent}  enabled: {_flow(section.on)}")
        for setting in section.settings():
            lines.append(f"{indent}  # {setting.about}{_added(setting)}")
            lines.append(f"{indent}  {setting.path[-1]}: {_flow(setting.default)}")
    return "\n".join(lines) + "\n"


def _added(setting: Setting) -> str:
    if setting.of.required:
        return " (required)"
    if setting.kind is Kind.PAIRS and setting.default:
        return " (Helm adds yours to these; null removes one)"
    return ""


def _flow(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def schema() -> Mapping[str, Any]:
    """values.schema.json: which keys there are, and the type of each."""
    tree: dict[str, Any] = {setting.path[-1]: setting.schema for setting in TOP}
    for section in SECTIONS:
        at = tree
        *above, last = section.name.split(".")
        for key in above:
            at = at[key]["properties"]
        entries: dict[str, Any] = {"enabled": {"type": "boolean"}} if section.on is not None else {}
        entries |= {setting.path[-1]: setting.schema for setting in section.settings()}
        at[last] = _object(section.about, entries)
    top = _object("Values of Holdfast's Helm chart", tree)
    # Helm gives every chart this key when it is a part of another chart.
    top["properties"]["global"] = {"type": "object"}
    return {"$schema": "http://json-schema.org/draft-07/schema#", **_complete(top)}


def _object(about: str, properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "description": about, "properties": properties}


def _complete(entry: dict[str, Any]) -> dict[str, Any]:
    """No other keys, and none missing: ``--set KEY=null`` would remove one."""
    known = entry.get("properties")
    if known is None:
        return entry
    return {
        **entry,
        "properties": {name: _complete(one) for name, one in known.items()},
        "required": sorted(known.keys() - {"global"}),
        "additionalProperties": False,
    }

"""The templates of the chart: the documents of ``holdfast render`` with Helm's expressions in them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from tftemplates.documents import TAKEN_BY_GROUP, Source
from tftemplates.marks import Language, block, mark, template

from holdfast.monitoring import documents as monitoring
from holdfast.monitoring.dashboards import DASHBOARDS
from holdfast.render import extra_settings, templates
from k8s_bridge.config import Join
from k8s_bridge.render import pod, rights
from packages.chart.values import SECTIONS, TOP, Kind, Setting
from slurm_hooks.deploy import PACKAGE, daemonset

HELM = Language(
    escapes={"{{": "{{ `{{` }}"},
    quoted=r"{{ \1 | toJson }}",
    plain=r"{{ include `holdfast.text` (\1) }}",
    begin=r"{{- if \1 }}",
    end="{{- end }}",
)

NAMESPACE = ".Release.Namespace"

_SETTINGS: Mapping[str, Mapping[str, Setting]] = {
    section.name: {setting.path[-1]: setting for setting in section.settings()}
    for section in SECTIONS
}


def _marks(section: str) -> Mapping[str, str]:
    """Each value of the section as a mark, and those that the release decides."""
    own = {name: mark(setting.expression) for name, setting in _SETTINGS[section].items()}
    return {**own, "namespace": mark(NAMESPACE), "cluster": mark(".Values.cluster")}


def _labels(name: str) -> str:
    """Holdfast's labels of an object, which win, and the ones in ``monitoring.labels``."""
    own = " ".join(f"`{key}` `{value}`" for key, value in monitoring.own(name, "").items())
    return f"merge (dict {own}) .Values.monitoring.labels"


def _rules(of: str) -> list[Mapping[str, object]]:
    (group,) = monitoring.rule_groups(of, mark(".Values.monitoring.drained_percent"))
    return [{**group, "labels": mark(_labels(f"holdfast-{of}"))}]


def _dashboard(which: str) -> Source:
    name = f"holdfast-dashboard-{which}"
    labels = f"merge (dict `grafana_dashboard` `1`) ({_labels(name)})"
    return Source(
        document=monitoring.DASHBOARD,
        path=f"dashboard-{which}",
        fixed={**_marks("monitoring"), "which": which},
        given={
            "configmap": True,
            "labels": mark(labels),
            "json": monitoring.dashboard_json(which),
        },
        own_context=False,
    )


_BRIDGE = ".Values.bridge.enabled"
_WORKER_PODS = ".Values.bridge.worker_pods"
_MONITORING = ".Values.monitoring.enabled"

FILES: Mapping[str, tuple[str, Source]] = {
    # Helm creates the namespace of a release itself, if asked to.
    "rights": (
        _BRIDGE,
        Source(
            document=rights.RBAC,
            path="",
            fixed={**_marks("bridge"), "create_namespace": "false"},
        ),
    ),
    "workloads": (
        _BRIDGE,
        Source(
            document=rights.WORKLOADS_RBAC,
            path="",
            fixed={"namespace": mark(f"${NAMESPACE}")},
            given={"workload_namespaces": [mark("$workloads")]},
        ),
    ),
    "worker-pods": (
        f"and {_BRIDGE} {_WORKER_PODS}.enabled",
        Source(
            document=rights.WORKER_PODS,
            path="",
            fixed={
                "namespace": mark(NAMESPACE),
                "workers": "",
                "worker_namespace": mark(f"{_WORKER_PODS}.namespace"),
            },
            given={"selector": mark(f"{_WORKER_PODS}.labels")},
        ),
    ),
    "bridge": (
        _BRIDGE,
        Source(
            document=pod.DEPLOYMENT,
            path="",
            fixed=_marks("bridge"),
            given={
                "token_file": mark(
                    "ternary (printf `%s/token` .Values.bridge.auth_path) ``"
                    " (eq .Values.bridge.auth `token`)"
                ),
                "auth_image": mark("default .Values.bridge.image .Values.bridge.auth_image"),
                "when": {name: block(f"eq .Values.bridge.auth `{name}`") for name in pod.AUTH}
                | {pod.SIDE_CAR: block("ne .Values.bridge.auth `token`")},
                "join": mark(
                    f"ternary `{Join.TABLE.value}` `{Join.INSTANCE_ID.value}`"
                    " (gt (len .Values.bridge.nodes) 0)"
                ),
                "pairs": mark(".Values.bridge.nodes"),
                "worker_pods_namespace": mark(
                    f"ternary {_WORKER_PODS}.namespace `` {_WORKER_PODS}.enabled"
                ),
                "slurm_more": mark("include `holdfast.slurm_more` ."),
                "more": mark("include `holdfast.more` ."),
            },
            own_context=False,
        ),
    ),
    "network-policy": (
        f"and {_BRIDGE} .Values.network_policy.enabled",
        Source(
            document=pod.NETWORK_POLICY,
            path="",
            fixed=_marks("bridge"),
            given={"ports": mark("include `holdfast.ports` . | fromJsonArray")},
            own_context=False,
        ),
    ),
    "off": (
        ".Values.kill_switches",
        Source(
            document=pod.OFF,
            path="",
            fixed={"namespace": mark(NAMESPACE), "switches": ""},
            given={"switches": mark("include `holdfast.switches` . | fromJson")},
        ),
    ),
    "agent": (
        ".Values.agent.enabled",
        Source(
            document=daemonset.DAEMONSET,
            path="",
            fixed=_marks("agent"),
            given={
                "script": mark("include `holdfast.agent.sh` . | indent 4 | trimPrefix `    `")
                + "\n",
                "digest": mark("include `holdfast.agent.digest` ."),
                "silent_periods": mark("divf .Values.agent.silent_s 15 | ceil | int"),
            },
            own_context=False,
        ),
    ),
    **{
        f"alerts-{of}": (
            _MONITORING if of == "agent" else f"and {_MONITORING} {_BRIDGE}",
            Source(
                document=monitoring.RULES,
                path="",
                fixed=_marks("monitoring"),
                given={"operator": True, "groups": _rules(of)},
                own_context=False,
            ),
        )
        for of in ("agent", "bridge")
    },
    "pod-monitor": (
        f"and {_MONITORING} {_BRIDGE}",
        Source(
            document=monitoring.BRIDGE_MONITOR,
            path="",
            fixed=_marks("monitoring"),
            given={"labels": mark(_labels("holdfast-bridge"))},
            own_context=False,
        ),
    ),
    "agent-pod-monitor": (
        f"and {_MONITORING} .Values.monitoring.agent_pods.enabled",
        Source(
            document=monitoring.AGENT_MONITOR,
            path="",
            fixed={**_marks("monitoring"), "port": mark(".Values.monitoring.agent_pods.port")},
            given={
                "labels": mark(_labels("holdfast-agent")),
                "pods": mark(".Values.monitoring.agent_pods.labels"),
                "pods_namespace": mark(".Values.monitoring.agent_pods.namespace"),
            },
            own_context=False,
        ),
    ),
    **{
        f"dashboard-{which}": (
            f"and {_MONITORING} .Values.monitoring.dashboards.enabled",
            _dashboard(which),
        )
        for which in DASHBOARDS
    },
}
"""Name of a template → when it is installed, and what it is made from."""


_EACH = {"workloads": "$_, $workloads := include `holdfast.workloads` . | fromJsonArray"}
"""Name of a template → of what list it is repeated for each entry."""


def manifests() -> Iterator[tuple[str, str]]:
    """Name and text of each template with objects."""
    for name, (when, source) in FILES.items():
        text = template(source.marked().rstrip("\n") + "\n", HELM)
        each = _EACH.get(name)
        if each:
            text = f"{{{{- range {each} }}}}\n---\n{text}{{{{- end }}}}\n"
        yield f"{name}.yaml", f"{{{{- if {when} }}}}\n{text}{{{{- end }}}}\n"


def agent_script() -> str:
    """``define`` of the script of the agent's pods."""
    marks = _marks("agent")
    given = {**marks, "programs": [mark("join ` ` .Values.agent.slurmd")]}
    text = template(templates.render(PACKAGE, "daemonset_agent.sh.j2", given), HELM)
    return f"{{{{- define `holdfast.agent.sh` -}}}}\n{text}{{{{- end }}}}\n"


def checks() -> str:
    """``define`` of the checks of all values, by the patterns and with the words of ``holdfast render``."""
    lines = ["{{- define `holdfast.checks` -}}", *map(_check, TOP)]
    for section in SECTIONS:
        if section.on is not None:
            lines.append(f"{{{{- if .Values.{section.name}.enabled }}}}")
        lines += [_check(one) for one in section.settings() if one.kind is not Kind.SECTIONS]
        if section.on is not None:
            lines.append("{{- end }}")
    return "\n".join([*lines, "{{- end }}"]) + "\n"


def tables() -> str:
    """``define`` of what ``bridge.extra_configuration`` may contain, for ``holdfast.extra``."""
    known = {
        "keys": {name: extra_settings.keys()[name] for name in pod.READ},
        "taken": {**pod.TAKEN, **TAKEN_BY_GROUP},
    }
    return f"{{{{- define `holdfast.known` }}}}{json.dumps(known)}{{{{ end }}}}\n"


def _check(setting: Setting) -> str:
    given = {
        Kind.PAIRS: f"include `holdfast.pairs` {setting.expression}",
        Kind.WORDS: f"join `,` {setting.expression}",
    }.get(setting.kind, f"include `holdfast.text` {setting.expression}")
    value = setting.of
    missing = (
        f"{setting.name} has no default; give it with --set {setting.name}=… ({setting.about})"
    )
    refusal = f"{setting.name}: {value.refusal('GIVEN')}".replace("%", "%%")
    words = [
        "name",
        _text(setting.name),
        "given",
        f"({given})",
        "pattern",
        f"`^(?:{value.pattern})$`",
        "refusal",
        _text(refusal.replace("GIVEN", "%s")),
        "missing",
        _text(missing if value.required else ""),
    ]
    keyed = " ".join(f"`{word}`" if n % 2 == 0 else word for n, word in enumerate(words))
    return f"{{{{- include `holdfast.check` (dict {keyed}) }}}}"


def _text(words: str) -> str:
    return json.dumps(words, ensure_ascii=False)

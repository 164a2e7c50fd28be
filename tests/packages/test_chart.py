"""The chart installs what `holdfast render` prints, and refuses what it refuses, with the same words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from packages.chart.files import files, write_archive
from packages.chart.values import SECTIONS

from holdfast.cli.commands.render import render_text
from holdfast.errors import UsageError
from holdfast.monitoring.dashboards import DASHBOARDS
from holdfast.version import VERSION
from tests.packages.helm import Helm, HelmError, by_name, joined, without_namespace

IMAGE = f"registry.example.org/holdfast@sha256:{'0' * 64}"
OTHER = f"registry.example.org/other@sha256:{'1' * 64}"

DEFAULTS: dict[str, Any] = {"bridge": {"image": IMAGE}}

EVERYTHING: dict[str, Any] = {
    "cluster": "c-1",
    "kill_switches": ["bridge", "all"],
    "bridge": {
        "image": IMAGE,
        "slurm_conf_configmap": "conf",
        "slurm_auth_secret": "token",
        "auth_path": "/run/auth",
        "slurm_user": "bridge",
        "uid": 999999,
        "poll_s": 0.5,
        "metrics_port": 9700,
        "cordon": False,
        "taint": False,
        "drain_on_cordon": False,
        "nodes": {"worker-0": "node-a", "worker-1": "node-b"},
        "adapter": "rest",
        "rest_url": "http://slurmrestd:6820",
        "events": False,
        "node_selector": "nvidia.com/gpu.present=true,pool in (a, b)",
        "unreadable_polls": 7,
        "connections": 16,
        "timeout_s": 20,
        "runs_on": {"pool": "system"},
        "memory_limit_mib": 1024,
        "worker_pods": {
            "enabled": True,
            "labels": {"app": "slurmd", "slurm.nebius.ai/worker": None},
            "namespace": "slurm-workers",
        },
        "extra_configuration": {
            "bridge": {"log_format": "json", "workloads": {"namespaces": ["team-a"]}},
            "slurm": {"timeout_s": 7},
            "node": {"expected_gpus": 4, "mounts": ["/mnt/a"]},
        },
    },
    "network_policy": {"ports": [443, 16443]},
    "agent": {
        "enabled": True,
        "image": OTHER,
        "home": "/opt/h",
        "config": "/etc/h.yaml",
        "slurmd": ["/usr/sbin/slurmd", "/opt/slurm/sbin/slurmd"],
        # Helm adds the user's map to the default one.
        "node_selector": {"a": "b", "c": "d", "nvidia.com/gpu.present": None},
        "max_unavailable": 3,
        "priority_class": "high",
        "memory_limit_mib": 256,
        "silent_s": 61,
    },
    "monitoring": {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "drained_percent": 25,
        "interval_s": 15,
        "agent_pods": {
            "enabled": True,
            "labels": {"slurm": "worker"},
            "namespace": "slurm",
            "port": 9700,
        },
        "dashboards": {"enabled": True},
    },
}

PYSLURM = {
    "bridge": {
        "image": IMAGE,
        "nodes": {},
        "adapter": "pyslurm",
        "auth": "slurm",
        "auth_path": "/k",
    }
}
MUNGE = {"bridge": {"image": IMAGE, "auth": "munge", "auth_image": OTHER}}


def rendered(values: Mapping[str, Any], namespace: str, folder: Path) -> Mapping[str, Any]:
    """What `holdfast render` prints for the same values."""
    given = dict(values["bridge"])
    workers = given.pop("worker_pods", None)
    bridge = {name: _text(one) for name, one in given.items()}
    if workers:
        bridge["worker_pods_namespace"] = workers["namespace"]
    if "extra_configuration" in bridge:
        file = folder / "extra.yaml"
        file.write_text(yaml.safe_dump(values["bridge"]["extra_configuration"]))
        bridge["extra_configuration"] = str(file)
    rights = {name: bridge[name] for name in ("cordon", "taint") if name in bridge}
    port = {name: bridge[name] for name in ("metrics_port",) if name in bridge}
    more = {name: _text(one) for name, one in values.get("network_policy", {}).items()}
    if "rest_url" in bridge:
        # As with Terraform: the bridge may connect to slurmrestd without another value.
        more["ports"] += "," + bridge["rest_url"].rpartition(":")[2]
    cluster = {"cluster": values["cluster"]} if "cluster" in values else {}
    extra = values["bridge"].get("extra_configuration", {}).get("bridge", {})
    teams = extra.get("workloads", {}).get("namespaces", ())
    texts = [
        render_text("rbac", namespace=namespace, **rights),
        *(render_text("workloads-rbac", namespace=namespace, namespaces=team) for team in teams),
        render_text("deployment", namespace=namespace, **cluster, **bridge),
        render_text("network-policy", namespace=namespace, **port, **more),
    ]
    if workers:
        pods = {"worker_namespace": workers["namespace"], "workers": _text(workers["labels"])}
        texts.append(render_text("worker-pods", namespace=namespace, **pods))
    if values.get("kill_switches"):
        switches = _text(values["kill_switches"])
        texts.append(render_text("off", namespace=namespace, switches=switches))
    if values.get("agent"):
        agent = {n: _text(one) for n, one in values["agent"].items() if n != "enabled"}
        texts.append(render_text("daemonset", namespace=namespace, **agent))
    if values.get("monitoring"):
        texts += _monitoring(values["monitoring"], namespace)
    return without_namespace(by_name(joined(texts)))


def _monitoring(values: Mapping[str, Any], namespace: str) -> list[str]:
    own = {"namespace": namespace, "labels": _text(values["labels"])}
    interval = {"interval_s": _text(values["interval_s"])}
    percent = _text(values["drained_percent"])
    pods = values["agent_pods"]
    return [
        render_text("prometheus-rules", drained_percent=percent, **own),
        render_text("pod-monitor", **own, **interval),
        render_text(
            "agent-pod-monitor",
            pods=_text(pods["labels"]),
            pods_namespace=pods["namespace"],
            port=_text(pods["port"]),
            **own,
            **interval,
        ),
        *(
            render_text("dashboard", which=which, **{"as": "configmap"}, **own)
            for which in DASHBOARDS
        ),
    ]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ",".join(f"{name}={one}" for name, one in value.items() if one is not None)
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


@pytest.mark.parametrize(
    "values",
    [DEFAULTS, EVERYTHING, PYSLURM, MUNGE],
    ids=["defaults", "all", "pyslurm", "munge"],
)
def test_the_objects_are_those_of_holdfast_render(
    helm: Helm, chart: Path, values: dict[str, Any], tmp_path: Path
) -> None:
    made = by_name(helm.template(chart, "slurm", values))
    wanted = rendered(values, "slurm", tmp_path)
    assert made.keys() == wanted.keys()
    for name, one in wanted.items():
        assert made[name] == one, name


def test_every_object_has_the_version(helm: Helm, chart: Path) -> None:
    for name, one in by_name(helm.template(chart, "slurm", EVERYTHING)).items():
        assert one["metadata"]["labels"]["app.kubernetes.io/version"] == VERSION, name


@pytest.mark.parametrize("values", [{}, DEFAULTS, EVERYTHING], ids=["none", "defaults", "all"])
def test_helm_lint(helm: Helm, chart_folder: Path, values: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    printed = helm("lint", "--strict", str(chart_folder), "-f", str(file))
    assert "0 chart(s) failed" in printed


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("deployment", {"image": ""}, "bridge.image has no default; give it with --set bridge.image="),
    ("deployment", {"image": "holdfast:1"}, "an image with its digest"),
    ("deployment", {"adapter": "sinfo"}, "must be one of commands, pyslurm, rest, got 'sinfo'"),
    ("deployment", {"uid": 0}, "a whole number from 1 to 999999, got '0'"),
    ("deployment", {"poll_s": 301}, "poll_s: '301' does not fit: seconds between two queries"),
    ("deployment", {"auth_path": "run/auth"}, "an absolute path without blanks"),
    ("deployment", {"nodes": {"w": "Node"}}, "nodes: 'w=Node' does not fit"),
    ("deployment", {"adapter": "rest"}, "adapter=rest and rest_url belong together"),
    (
        "deployment",
        {"adapter": "rest", "rest_url": "http://slurmrestd:6820", "auth": "munge"},
        "adapter=rest needs auth=token: slurmrestd takes a token",
    ),
    ("deployment", {"auth": "key"}, "must be one of token, munge, slurm, got 'key'"),
    ("deployment", {"auth_image": "munge:1"}, "an image with its digest"),
    ("deployment", {"metrics_port": 9647}, "metrics_port: 9647 is that of the status page"),
    ("daemonset", {"max_unavailable": "0%"}, "max_unavailable: '0%' does not fit"),
    ("daemonset", {"slurmd": ["slurmd"]}, "slurmd: 'slurmd' does not fit"),
    ("daemonset", {"node_selector": {"a b": "c"}}, "node_selector: 'a b=c"),
    ("network-policy", {"ports": [0]}, "ports: '0' does not fit"),
]


@pytest.mark.parametrize(("what", "wrong", "words"), REFUSED, ids=str)
def test_a_bad_value_is_refused_with_the_words_of_holdfast_render(
    helm: Helm, chart: Path, what: str, wrong: dict[str, Any], words: str
) -> None:
    if "--set" not in words:
        image = {} if what == "network-policy" else {"image": IMAGE}
        given = {name: _text(one) for name, one in wrong.items()}
        with pytest.raises(UsageError) as refusal:
            render_text(what, **{**image, **given})
        assert words in str(refusal.value)
    section = {"deployment": "bridge", "daemonset": "agent"}.get(what, "network_policy")
    on = {"image": IMAGE, "enabled": True} if what == "daemonset" else {}
    values = {**DEFAULTS, section: {**DEFAULTS.get(section, {}), **on, **wrong}}
    with pytest.raises(HelmError) as refused:
        helm.template(chart, "slurm", values)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"agent": {"interval_s": 2}}, "agent: nothing here reads this section; use bridge, node"),
        ({"bridge": {"cordon": True}}, "bridge.cordon is written by this chart: use bridge.cordon"),
        ({"bridge": {"page_port": 1}}, "bridge.page_port is written by this chart: leave it out"),
        (
            {"bridge": {"worker_pods_namespace": "soperator"}},
            "bridge.worker_pods_namespace is written by this chart: use bridge.worker_pods",
        ),
        *(
            ({"bridge": {"workloads": {"namespaces": names}}}, "must be a list of namespaces, each")
            for names in ("team-a", ["Team"], ["a", "a"], None)
        ),
        ({"slurm": {"timeouts": 1}}, "slurm.timeouts: no such key; holdfast.yaml has"),
    ],
)
def test_extra_configuration_is_refused_where_it_would_do_nothing_or_contradict(
    helm: Helm, chart: Path, extra: dict[str, Any], words: str
) -> None:
    with pytest.raises(HelmError) as refused:
        helm.template(chart, "slurm", {"bridge": {"image": IMAGE, "extra_configuration": extra}})
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            {"labels": {"slurm.nebius.ai/worker": None}},
            "bridge.worker_pods.labels: '' does not fit",
        ),
        (
            {"labels": {"a b": "c"}},
            "bridge.worker_pods.labels: 'a b=c,slurm.nebius.ai/worker=true'",
        ),
        ({"namespace": "A"}, "bridge.worker_pods.namespace: must be a Kubernetes name"),
    ],
)
def test_wrong_labels_of_worker_pods_are_refused(
    helm: Helm, chart: Path, wrong: dict[str, Any], words: str
) -> None:
    """Labels that select nothing would protect nothing."""
    values = {"bridge": {"image": IMAGE, "worker_pods": {"enabled": True, **wrong}}}
    with pytest.raises(HelmError) as refused:
        helm.template(chart, "slurm", values)
    assert words in str(refused.value)


def test_two_slurm_nodes_on_one_kubernetes_node_are_refused(helm: Helm, chart: Path) -> None:
    nodes = {"worker-0": "node-a", "worker-1": "node-a"}
    with pytest.raises(HelmError, match="a Kubernetes Node is given twice"):
        helm.template(chart, "slurm", {"bridge": {"image": IMAGE, "nodes": nodes}})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"bridge": {"imagee": IMAGE}}, "imagee"),
        ({"bridge": {"image": IMAGE, "cordon": "yes"}}, "cordon"),
        ({"bridge": {"image": IMAGE, "nodes": None}}, "nodes"),
        ({"agents": {}}, "agents"),
    ],
)
def test_the_schema_refuses_unknown_keys_and_other_types(
    helm: Helm, chart: Path, values: dict[str, Any], words: str
) -> None:
    with pytest.raises(HelmError, match=words):
        helm.template(chart, "slurm", values)


def test_an_old_kubernetes_is_refused(helm: Helm, chart: Path) -> None:
    """It has no ValidatingAdmissionPolicy: the bridge would have more rights than it needs."""
    with pytest.raises(HelmError, match=r"requires kubeVersion: >= 1\.30"):
        helm("template", "x", str(chart), "--kube-version=1.29.9", f"--set=bridge.image={IMAGE}")


def test_the_same_tree_gives_the_same_archive(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_archive(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_each_value_has_a_default_a_type_and_a_meaning() -> None:
    made = files()
    values, schema = yaml.safe_load(made["values.yaml"]), json.loads(made["values.schema.json"])
    for section in SECTIONS:
        for setting in section.settings():
            default, entry = values, schema
            for key in setting.path:
                default, entry = default[key], entry["properties"][key]
            assert default == setting.default, setting.name
            assert entry["description"], setting.name

"""The bridge's pod: its Deployment with the configuration, its network policy, and its kill switches."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.errors import UsageError
from holdfast.render import extra_settings as extra
from holdfast.render.document import (
    BOOL,
    IMAGE_BY_DIGEST,
    NAME,
    NUMBER,
    PATH,
    REQUIRED,
    Document,
    Value,
)
from k8s_bridge.config import Join
from k8s_bridge.render.values import LABEL, NAMESPACE, PACKAGE, labels

_DNS = 53
_PAGE_PORT = "9647"
"""The port of the status page, as the template has it."""

_PORT = r"[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"

_PAIR = r"[A-Za-z0-9._-]+=[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_TIMEOUT = r"[1-9][0-9]?|1[01][0-9]|120"
_POLL = r"0\.[1-9][0-9]*|([1-9][0-9]?|[12][0-9]{2})(\.[0-9]+)?|300"


AUTH = {
    "token": "a token of slurm_user",
    "munge": "the cluster's key, in a side-car with munged",
    "slurm": "the cluster's key, in a side-car with sackd (auth/slurm)",
}
"""How the bridge's pod authenticates to Slurm."""

SIDE_CAR = "side_car"
"""A part of the template that all ways but a token have."""

_HERE = {"begin": "", "end": ""}
"""A part of the template that is printed. Terraform and Helm have a condition around it."""

_SAME_NAMES = (
    "cordon",
    "taint",
    "drain_on_cordon",
    "poll_s",
    "slurm_user",
    "metrics_port",
    "nodes",
    "node_selector",
    "events",
    "unreadable_polls",
    "connections",
    "timeout_s",
    "worker_pods_namespace",
)
"""Keys of the section ``bridge`` that values of the same names set."""

READ = ("bridge", "node", "paths", "slurm")
"""The sections that the bridge reads, besides ``cluster``."""

TAKEN: Mapping[str, str] = {
    "slurm.adapter": "adapter",
    "slurm.rest_url": "rest_url",
    "bridge.slurm_token_file": "auth_path",
    "bridge.metrics_host": "",
    "bridge.page_port": "",
    "bridge.join": "nodes",
    **{f"bridge.{name}": name for name in _SAME_NAMES},
}
"""What the template of the Deployment writes → the value that sets it; empty: it is fixed."""


def _deployment(values: Mapping[str, str]) -> Mapping[str, object]:
    if (values["adapter"] == "rest") != bool(values["rest_url"]):
        raise UsageError("deployment: adapter=rest and rest_url belong together")
    if values["adapter"] == "rest" and values["auth"] != "token":
        raise UsageError("deployment: adapter=rest needs auth=token: slurmrestd takes a token")
    if values["metrics_port"] == _PAGE_PORT:
        raise UsageError(f"deployment: metrics_port: {_PAGE_PORT} is that of the status page")
    sections = dict(extra.read(values["extra_configuration"], TAKEN, dict.fromkeys(READ)))
    auth = values["auth"]
    return {
        "when": {
            **{name: _HERE if name == auth else None for name in AUTH},
            SIDE_CAR: None if auth == "token" else _HERE,
        },
        "auth_image": values["auth_image"] or values["image"],
        "slurm_more": extra.lines(sections.pop("slurm", {}), 2),
        "more": extra.lines(sections.pop("bridge", {}), 2) + extra.lines(sections),
        "token_file": f"{values['auth_path']}/token" if auth == "token" else "",
        "join": Join.TABLE.value if values["nodes"] else Join.INSTANCE_ID.value,
        "pairs": _pairs(values["nodes"]),
        "runs_on": labels(values["runs_on"]),
    }


def _pairs(text: str) -> Mapping[str, str]:
    """Slurm node name → Kubernetes Node name. Raises ``UsageError`` for a name that is given twice."""
    pairs = [pair.split("=") for pair in text.split(",") if pair]
    for which, side in enumerate(("Slurm node", "Kubernetes Node")):
        names = [pair[which] for pair in pairs]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"deployment: nodes: the {side} {twice} is given twice")
    return dict(pairs)


DEPLOYMENT = Document(
    about="the bridge as a Deployment, with its configuration",
    package=PACKAGE,
    template="deployment.yaml.j2",
    context=_deployment,
    values={
        "image": Value(IMAGE_BY_DIGEST, REQUIRED, "Slurm's client tools and holdfast[bridge]"),
        "slurm_conf_configmap": Value(NAME, "slurm-conf", "the ConfigMap that holds slurm.conf"),
        "auth": Value(
            "|".join(AUTH),
            "token",
            "; ".join(f"{name}: {meaning}" for name, meaning in AUTH.items()),
        ),
        "slurm_auth_secret": Value(
            NAME,
            "slurm-auth",
            "the Secret with the token or key: `token`, `munge.key` or `slurm.key`",
        ),
        "auth_path": Value(PATH, "/etc/slurm-auth", "where it is mounted"),
        "auth_image": Value(
            rf"({IMAGE_BY_DIGEST})?",
            "",
            "the side-car's image; empty: that of the bridge, which has both",
        ),
        "namespace": NAMESPACE,
        "cluster": Value(r"[\w.-]+", "cluster", "the name of this cluster"),
        "slurm_user": Value(r"[a-z_][a-z0-9_-]*", "holdfast", "the Slurm user that drains nodes"),
        "uid": Value(NUMBER, "2000", "uid of that user"),
        "poll_s": Value(_POLL, "2", "seconds between two queries of Slurm, 0.1 to 300"),
        "metrics_port": Value(_PORT, "9646", "the port of the bridge's metrics, for Prometheus"),
        "cordon": Value(BOOL, "true", "a node drained in Slurm is cordoned in Kubernetes"),
        "taint": Value(BOOL, "true", "… and tainted"),
        "drain_on_cordon": Value(BOOL, "true", "a node cordoned by a person is drained in Slurm"),
        "nodes": Value(
            rf"({_PAIR}(,{_PAIR})*)?",
            "",
            "SLURM=KUBERNETES,…: names of the nodes; empty: the InstanceId is the Node's name",
        ),
        "adapter": Value(
            "commands|pyslurm|rest",
            "commands",
            "pyslurm: the image has the cluster's release of it",
        ),
        "rest_url": Value(
            r"(https?://[A-Za-z0-9.-]+:[0-9]{1,5})?", "", "adapter=rest: where slurmrestd listens"
        ),
        "events": Value(BOOL, "true", "the bridge makes Events on Nodes for transitions"),
        "node_selector": Value(
            r"[\w./,=!() -]*", "", "a label selector: the bridge ignores all other Nodes"
        ),
        "unreadable_polls": Value(
            r"[1-9][0-9]{0,2}|1000", "3", "failed reads of Slurm until conditions become Unknown"
        ),
        "connections": Value(r"[1-9]|[1-5][0-9]|6[0-4]", "8", "requests to the API server at once"),
        "timeout_s": Value(_TIMEOUT, "10", "limit for one call to the API server, 1 to 120"),
        "worker_pods_namespace": Value(
            rf"({NAME})?", "", "as worker_namespace in `holdfast render worker-pods`; empty: none"
        ),
        "runs_on": Value(
            rf"({LABEL}(,{LABEL})*)?",
            "",
            "NAME=VALUE,…: labels of the Nodes on which the pod may run; empty: any",
        ),
        "memory_limit_mib": Value(
            r"12[89]|1[3-9][0-9]|[2-9][0-9]{2}|[1-9][0-9]{3,4}",
            "512",
            "memory limit of the pod; at least 128",
        ),
        "extra_configuration": extra.VALUE,
    },
)


def _network_policy(values: Mapping[str, str]) -> Mapping[str, object]:
    dns = [{"port": _DNS, "protocol": protocol} for protocol in ("UDP", "TCP")]
    return {
        "ports": [
            *dns,
            *({"port": int(port), "protocol": "TCP"} for port in values["ports"].split(",")),
        ]
    }


NETWORK_POLICY = Document(
    about="which connections the bridge's pod may make and accept",
    package=PACKAGE,
    template="network_policy.yaml.j2",
    context=_network_policy,
    values={
        "namespace": NAMESPACE,
        "ports": Value(
            rf"({_PORT})(,({_PORT}))*",
            "443,6443,6817,6819",
            "TCP ports of the API server (Service and endpoint), slurmctld and slurmdbd",
        ),
        "metrics_port": Value(_PORT, "9646", "the same as in `holdfast render deployment`"),
    },
)


def _off(values: Mapping[str, str]) -> Mapping[str, object]:
    return {"switches": dict.fromkeys(values["switches"].split(","), "")}


OFF = Document(
    about="kill switches of the bridge's pod",
    package=PACKAGE,
    template="off.yaml.j2",
    context=_off,
    values={
        "namespace": NAMESPACE,
        "switches": Value(
            "(bridge|all)(,(bridge|all))*", "bridge", "bridge: it reports only; all: every action"
        ),
    },
)

"""The agent by a DaemonSet, for nodes of Slurm that are nodes of Kubernetes too.

The pod enters slurmd's namespaces and runs the agent there instead of bringing files, mounts and
names of its own: what it says of mounts, devices and libraries has to hold for jobs, hooks have to
find its verdict and its pid, and a name that a pod was given once is another machine's as soon as
the worker pod moves.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping

from holdfast.config.location import DEFAULT_PATH
from holdfast.document import (
    IMAGE_BY_DIGEST,
    NAME,
    NUMBER,
    PATH,
    REQUIRED,
    Document,
    Value,
    filled,
)
from slurm_hooks.deploy import indented, source

_PERIOD_S = 15
_LABEL = r"[\w./-]+=[\w.-]*"


def script(values: Mapping[str, str]) -> str:
    """What the pod runs and what its probes ask."""
    programs = " ".join(values["slurmd"].split(","))
    return filled(source("daemonset_agent.sh"), {**values, "programs": programs})


def _text(values: Mapping[str, str]) -> str:
    program = script(values)
    more = {
        "script": indented(program, 4).rstrip("\n"),
        "digest": hashlib.sha256(program.encode()).hexdigest()[:12],
        "selector": _selector(values["node_selector"]),
        "silent_periods": str(math.ceil(int(values["silent_s"]) / _PERIOD_S)),
    }
    return filled(source("daemonset.yaml.in"), {**values, **more})


def _selector(labels: str) -> str:
    if not labels:
        return "      # On every node; where no slurmd runs, the pod waits for one."
    pairs = dict(label.split("=", 1) for label in labels.split(","))
    lines = (f"        {json.dumps(name)}: {json.dumps(value)}" for name, value in pairs.items())
    return "\n".join(("      nodeSelector:", *lines))


DAEMONSET = Document(
    about="the agent by a DaemonSet, beside slurmd on each node",
    make=_text,
    values={
        "namespace": Value(NAME, "holdfast", "must allow privileged pods"),
        "image": Value(IMAGE_BY_DIGEST, REQUIRED, "sh, nsenter, setpriv: Debian's, no more"),
        "home": Value(PATH, "/opt/holdfast", "where Holdfast is installed, as slurmd sees it"),
        "config": Value(PATH, str(DEFAULT_PATH), "its configuration, as slurmd sees it"),
        "slurmd": Value(
            f"{PATH}(,{PATH})*",
            "/usr/sbin/slurmd,/usr/sbin/slurmd-wlm,/usr/local/sbin/slurmd,/opt/slurm/sbin/slurmd",
            "its program's absolute paths, as slurmd sees them, with commas between",
        ),
        "node_selector": Value(
            f"({_LABEL}(,{_LABEL})*)?",
            "nvidia.com/gpu.present=true",
            "labels of the nodes, with commas between; empty: all",
        ),
        "max_unavailable": Value(
            rf"{NUMBER}|[1-9][0-9]?%", "5%", "how many nodes change to another version at once"
        ),
        "priority_class": Value(NAME, "system-node-critical", "so that no other pod displaces it"),
        "memory_limit_mib": Value(
            r"12[89]|1[3-9][0-9]|[2-9][0-9]{2}|[1-9][0-9]{3,4}",
            "512",
            "what the agent and its probes may take; at least 128",
        ),
        "silent_s": Value(
            NUMBER, "60", "an agent whose verdict ran out so long ago is started again"
        ),
    },
)

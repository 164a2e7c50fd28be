"""The agent by a DaemonSet, for nodes of Slurm that are nodes of Kubernetes too.

The pod enters slurmd's namespaces and runs the agent there. It brings no files, mounts or names of
its own: what the agent reports about mounts, devices and libraries must hold for jobs, and hooks
must find its verdict and its pid. A node name that is set in the pod would be wrong as soon as the
worker pod moves.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

from holdfast.config.path import DEFAULT_PATH
from holdfast.render import templates
from holdfast.render.document import IMAGE_BY_DIGEST, NAME, NUMBER, PATH, REQUIRED, Document, Value
from slurm_hooks.deploy import PACKAGE

_PERIOD_S = 15
_LABEL = r"[\w./-]+=[\w.-]*"


def _context(values: Mapping[str, str]) -> Mapping[str, object]:
    programs = values["slurmd"].split(",")
    script = templates.render(PACKAGE, "daemonset_agent.sh.j2", {**values, "programs": programs})
    labels = values["node_selector"].split(",") if values["node_selector"] else []
    return {
        "script": script,
        "digest": hashlib.sha256(script.encode()).hexdigest()[:12],
        "node_selector": dict(label.split("=", 1) for label in labels),
        "silent_periods": math.ceil(int(values["silent_s"]) / _PERIOD_S),
    }


DAEMONSET = Document(
    about="the agent by a DaemonSet, beside slurmd on each node",
    package=PACKAGE,
    template="daemonset.yaml.j2",
    context=_context,
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
            rf"{NUMBER}|[1-9][0-9]?%", "5%", "how many nodes are updated at once"
        ),
        "priority_class": Value(NAME, "system-node-critical", "so that no other pod displaces it"),
        "memory_limit_mib": Value(
            r"12[89]|1[3-9][0-9]|[2-9][0-9]{2}|[1-9][0-9]{3,4}",
            "512",
            "memory limit of the agent and its probes; at least 128",
        ),
        "silent_s": Value(NUMBER, "60", "an agent whose verdict expired so long ago is restarted"),
    },
)

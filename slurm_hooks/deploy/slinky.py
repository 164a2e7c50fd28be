"""Values for Slinky's chart ``slurm`` (slurm-operator): hooks, health check, agent.

Keys: helm/slurm/values.yaml of slurm-operator 1.3. The operator names every prolog script in
slurm.conf by file name alone and ships it to the nodes (configless); a HealthCheckProgram is not
shipped and must exist on the node. slurmd's container is privileged, so /dev/kmsg is in it.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.config.kill_switch_files import ALL
from holdfast.render.document import IMAGE, NAME, NUMBER, REQUIRED, Document, Value
from slurm_hooks import checks
from slurm_hooks.deploy import PACKAGE, configuration


def _context(values: Mapping[str, str]) -> Mapping[str, object]:
    return {**configuration.context(values), "switches": (ALL, *checks.CATALOGUE)}


VALUES = Document(
    about="Slinky slurm-operator: values of the chart slurm",
    package=PACKAGE,
    template="slinky.yaml.j2",
    context=_context,
    values={
        **configuration.VALUES,
        "image": Value(IMAGE, REQUIRED, "your image with Holdfast in /opt/holdfast"),
        "nodeset": Value(NAME, "slinky", "the key of your GPU nodes under nodesets"),
        "health_check_interval_s": Value(NUMBER, "30", "how long a stopped agent stays down"),
    },
)

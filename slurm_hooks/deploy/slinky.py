"""Values for Slinky's chart ``slurm`` (slurm-operator): hooks, health check, agent.

Keys: helm/slurm/values.yaml of slurm-operator 1.3. The operator names every prolog script in
slurm.conf by file name alone and ships it to the nodes (configless); a HealthCheckProgram is not
shipped and has to be there. slurmd's container is privileged, so /dev/kmsg is in it.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.config.location import ALL
from holdfast.document import IMAGE, NAME, NUMBER, REQUIRED, Document, Value, filled
from slurm_hooks import checks
from slurm_hooks.deploy import configuration, indented, source


def _values(values: Mapping[str, str]) -> str:
    config = indented(configuration.text(values), 8).rstrip("\n")
    switches = "\n".join(
        f"{'':20}- {{key: {name}, path: off/{name}}}" for name in (ALL, *checks.CATALOGUE)
    )
    more = {"configuration": config, "switches": switches}
    return filled(source("slinky.yaml.in"), {**values, **more})


VALUES = Document(
    about="Slinky slurm-operator: values of the chart slurm",
    make=_values,
    values={
        **configuration.VALUES,
        "image": Value(IMAGE, REQUIRED, "an image of yours with Holdfast in /opt/holdfast"),
        "nodeset": Value(NAME, "slinky", "the key of your GPU nodes under nodesets"),
        "health_check_interval_s": Value(NUMBER, "30", "how long a dead agent stays dead"),
    },
)

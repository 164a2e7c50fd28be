"""Values for Soperator's charts: hooks, health check and configuration by ``slurmScripts.extra``.

What each key means and what Soperator's check runner does with it: soperator's own
helm/slurm-cluster (values.yaml, slurm_scripts/check_runner.py), version 5.0.0. Three of its rules
made this what it is. One unknown key in one check's JSON makes the runner skip all checks. The
first check that fails ends the run, also where failing is the expected "not yet" of a check that
undrains. Every file of ``extra`` needs a ``config``, and passes Helm's ``tpl``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from holdfast.document import NUMBER, Document, Value, filled
from holdfast.version import VERSION
from slurm_hooks.deploy import configuration, indented, source

SCRIPTS = "/opt/slurm_scripts"
_WRAPPER, _RUNNER = "wrapper", "runner"
_HEAD = """\
# Holdfast on Soperator: values of the chart slurm-cluster{where}.
# First install Holdfast {version} in the jail, on a login node, at /opt/holdfast (docs/howto/soperator.md); each worker
# then brings itself a copy. No image is built and no line of slurm.conf is overridden: JobRequeue,
# nohold_on_prolog_fail, KillOnBadExit and PrologFlags are as Holdfast needs them in Soperator's own slurm.conf. Leave
# SchedulerParameters out of customSlurmConfig: a second line of it replaces Soperator's whole list.
# A kill switch for all nodes at once is one more entry of extra: holdfast.off.CHECK or holdfast.off.all, with the
# config of holdfast.yaml below and any content.
"""
_FLUX = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: slurm-cluster
  namespace: flux-system
  labels:
    # Flux's helm-controller looks at once, not at its next turn.
    reconcile.fluxcd.io/watch: Enabled
data:
  values.yaml: |
"""


def check(
    name: str, *, contexts: tuple[str, ...] = ("none",), command: str = "/usr/bin/true"
) -> str:
    """One entry of the runner's checks.json: every key that Soperator documents, and no other.

    A file that is no check has the context ``none``. No entry drains or undrains: what takes a node
    out gives it back, and that is Holdfast's agent.
    """
    entry = {
        "name": name,
        "command": command,
        "platforms": ["any"],
        "skip_for_cpu_jobs": False,
        "skip_for_partial_gpu_jobs": False,
        "contexts": list(contexts),
        "node_states": ["any"],
        "on_fail": "none",
        "on_ok": "none",
        "reason_base": "holdfast",
        "reason_append_details": True,
        "run_in_jail": False,
        "log": "slurm_scripts/$worker.$name.$context.out",
        "need_env": [],
    }
    lines = (f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in entry.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _values(values: Mapping[str, str]) -> str:
    flux = values["as"] == "flux"
    where = " (Flux: a ConfigMap that its HelmRelease reads)" if flux else ""
    body = "".join((_health_check(values), _gates(values), _scripts(values)))
    head = _HEAD.format(version=VERSION, where=where)
    return head + (_FLUX + indented(body, 4) if flux else body)


def _health_check(values: Mapping[str, str]) -> str:
    return (
        "healthCheckConfig:\n"
        f"  healthCheckInterval: {values['health_check_interval_s']}\n"
        f"  healthCheckProgram: {SCRIPTS}/holdfast_health_check.sh\n"
        "  healthCheckNodeState:\n"
        "    # Also nodes that are down or drained: these are the ones to give back.\n"
        "    - state: ANY\n"
        "    # Not all nodes in the same second.\n"
        "    - state: CYCLE\n"
    )


def _gates(values: Mapping[str, str]) -> str:
    if values["gate"] == _RUNNER:
        return ""
    return (
        "slurmConfig:\n"
        f"  prolog: {SCRIPTS}/holdfast_prolog.sh\n"
        f"  epilog: {SCRIPTS}/holdfast_epilog.sh\n"
    )


def _scripts(values: Mapping[str, str]) -> str:
    return "slurmScripts:\n  extra:\n" + "".join(_entry(*file) for file in files(values))


def _entry(name: str, content: str, config: str) -> str:
    return (
        f"    {name}:\n      content: |\n{indented(content, 8)}"
        f"      config: |\n{indented(config, 8)}"
    )


def files(values: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Name, content and config of each file of ``slurmScripts.extra``."""
    yield "holdfast.yaml", configuration.text(values), check("holdfast.yaml")
    for role in ("health_check", "install"):
        name = f"holdfast_{role}.sh"
        yield name, filled(source(f"soperator_{role}.sh"), {"version": VERSION}), check(name)
    for context in ("prolog", "epilog"):
        name = f"holdfast_{context}.sh"
        if values["gate"] == _RUNNER:
            content = filled(source("soperator_runner.sh"), {"context": context})
            config = check(f"holdfast_{context}", contexts=(context,), command=f"./{name}")
        else:
            content, config = source(f"soperator_{context}.sh"), check(name)
        yield name, content, config


def _nodeset(_values: Mapping[str, str]) -> str:
    return source("soperator_nodeset.yaml")


VALUES = Document(
    about="Soperator: values of the chart slurm-cluster",
    make=_values,
    values={
        **configuration.VALUES,
        "mounts": configuration.VALUES["mounts"]._replace(
            default="/mnt/jail",
            about="mount points as slurmd sees them: jail submounts are below /mnt/jail",
        ),
        "gate": Value(
            f"{_WRAPPER}|{_RUNNER}",
            _WRAPPER,
            "wrapper: prolog and epilog ask Holdfast first; runner: as checks of Soperator's runner",
        ),
        "health_check_interval_s": Value(
            NUMBER, "120", "as Soperator's; its own checks run as often"
        ),
        "as": Value("values|flux", "values", "flux: as the ConfigMap that the recipe leaves free"),
    },
)

NODESET = Document(
    about="Soperator: what each entry of the chart nodesets needs beside",
    make=_nodeset,
)

"""Values for Soperator's charts: hooks, health check and configuration by ``slurmScripts.extra``.

Source of the keys and of what Soperator's check runner does with them: soperator's
helm/slurm-cluster (values.yaml, slurm_scripts/check_runner.py), version 5.0.0. Three rules matter:
one unknown key in one check's JSON makes the runner skip all checks; the first check that fails
ends the run, even a check that undrains and has nothing to undrain yet; every file of ``extra``
needs a ``config`` and passes Helm's ``tpl``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from holdfast.document import NUMBER, Document, Value
from holdfast.version import VERSION
from slurm_hooks.deploy import PACKAGE, configuration

SCRIPTS = "/opt/slurm_scripts"
_WRAPPER, _RUNNER = "wrapper", "runner"


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file of ``slurmScripts.extra``: its text, and its entry in the runner's checks.json.

    A file that is no check has the context ``none``. No entry drains or undrains a node: Holdfast's
    agent does both.
    """

    name: str
    template: str
    check: str
    context: str = "none"
    command: str = "/usr/bin/true"


def files(gate: str) -> Iterator[File]:
    """The files of ``slurmScripts.extra``, in order."""
    yield File(name="holdfast.yaml", template="holdfast.yaml.j2", check="holdfast.yaml")
    for role in ("health_check", "install"):
        yield _script(role)
    for context in ("prolog", "epilog"):
        if gate == _RUNNER:
            name = f"holdfast_{context}.sh"
            yield File(
                name=name,
                template="soperator/runner.sh.j2",
                check=f"holdfast_{context}",
                context=context,
                command=f"./{name}",
            )
        else:
            yield _script(context)


def _script(role: str) -> File:
    name = f"holdfast_{role}.sh"
    return File(name=name, template=f"soperator/{role}.sh.j2", check=name)


def _context(values: Mapping[str, str]) -> Mapping[str, object]:
    return {
        **configuration.context(values),
        "version": VERSION,
        "scripts": SCRIPTS,
        "flux": values["as"] == "flux",
        "wrapper": values["gate"] == _WRAPPER,
        "files": list(files(values["gate"])),
        "off": [name for name in values["off"].split(",") if name],
    }


VALUES = Document(
    about="Soperator: values of the chart slurm-cluster",
    package=PACKAGE,
    template="soperator/soperator.yaml.j2",
    context=_context,
    values={
        **configuration.VALUES,
        "mounts": configuration.VALUES["mounts"]._replace(
            default="/mnt/jail",
            about="mount points as slurmd sees them: jail submounts are below /mnt/jail",
        ),
        "gate": Value(
            f"{_WRAPPER}|{_RUNNER}",
            _WRAPPER,
            "wrapper: prolog and epilog run Holdfast first; runner: as checks of Soperator's runner",
        ),
        "health_check_interval_s": Value(
            NUMBER, "120", "as Soperator's; its own checks run as often"
        ),
        "off": Value(
            r"([a-z0-9_]+(,[a-z0-9_]+)*)?",
            "",
            "kill switches on all nodes, with commas between: names of checks, or all",
        ),
        "as": Value(
            "values|flux",
            "values",
            "flux: as a ConfigMap that the HelmRelease of Soperator's recipe reads",
        ),
    },
)

NODESET = Document(
    about="Soperator: what to add to each entry of the chart nodesets",
    package=PACKAGE,
    template="soperator/nodeset.yaml.j2",
)

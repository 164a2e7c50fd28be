"""Values for Soperator's charts: its three scripts as wrappers, and what the wrappers run.

Source of the keys and of what Soperator's check runner does with them: soperator's
helm/slurm-cluster (values.yaml, slurm_scripts/check_runner.py), releases 2.0 to 5.0
(scripts/hold_against). Four rules matter: one unknown key in one check's JSON makes the runner skip
all checks; the first check that fails ends the run, even a check that undrains and has nothing to
undrain yet; every file of ``extra`` needs a ``config`` and passes Helm's ``tpl``; a chart that gets
``healthCheckConfig`` writes the key twice, which Flux refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from holdfast.errors import UsageError
from holdfast.render.document import Document, Value
from holdfast.version import VERSION
from slurm_hooks.deploy import PACKAGE, configuration

SCRIPTS = "/opt/slurm_scripts"
OLDEST = (2, 0)
"""The first release with these keys of ``slurmScripts``. Older charts ignore them, without a message."""
_WRAPPER, _RUNNER = "wrapper", "runner"
_CONTEXTS = ("prolog", "epilog")


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file of ``slurmScripts``: its text, and its entry in the runner's checks.json.

    A file that is no check has the context ``none``. No entry drains or undrains a node: Holdfast's
    agent does both. ``own``: the file of Soperator's chart that this one is a copy of.
    """

    name: str
    template: str
    check: str = ""
    context: str = "none"
    command: str = "/usr/bin/true"
    own: str = ""


def overrides(hooks: str) -> Iterator[File]:
    """Soperator's scripts that wrappers replace, in order."""
    for name in (*(_CONTEXTS if hooks == _WRAPPER else ()), "hc_program"):
        yield File(name=f"{name}.sh", template=f"soperator/{name}.sh.j2")


def files(hooks: str) -> Iterator[File]:
    """The files of ``slurmScripts.extra``, in order."""
    yield File(name="holdfast.yaml", template="holdfast.yaml.j2", check="holdfast.yaml")
    install = "holdfast_install.sh"
    yield File(name=install, template="soperator/install.sh.j2", check=install)
    for override in overrides(hooks):
        name = f"soperator_{override.name}"
        yield File(
            name=name, template="soperator/soperator_script.j2", check=name, own=override.name
        )
    for context in _CONTEXTS if hooks == _RUNNER else ():
        name = f"holdfast_{context}.sh"
        yield File(
            name=name,
            template="soperator/runner.sh.j2",
            check=f"holdfast_{context}",
            context=context,
            # The runner appends redirections and takes every status but 0 for a failed check.
            command=f"{{ ./{name} || [ $? -ne 10 ]; }}",
        )


def switch(name: str) -> File:
    """A kill switch: hc_program.sh makes /etc/holdfast/off/NAME of it on every worker."""
    file = f"holdfast.off.{name}"
    return File(name=file, template="soperator/off.j2", check=file)


def _context(values: Mapping[str, str]) -> Mapping[str, object]:
    _refuse_old(values["slurm_operator_version"])
    return {
        **configuration.context(values),
        "version": VERSION,
        "scripts": SCRIPTS,
        "flux": values["as"] == "flux",
        "wrapper": values["hooks"] == _WRAPPER,
        "overrides": list(overrides(values["hooks"])),
        "files": [*files(values["hooks"]), *map(switch, filter(None, values["off"].split(",")))],
    }


def _refuse_old(release: str) -> None:
    major, minor = (int(number) for number in re.findall("[0-9]+", release)[:2])
    if (major, minor) < OLDEST:
        raise UsageError(
            f"soperator: slurm_operator_version: the charts of Soperator {release} have other keys and "
            "ignore these values without a message; Holdfast needs Soperator 2.0 or newer"
        )


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
        "hooks": Value(
            f"{_WRAPPER}|{_RUNNER}",
            _WRAPPER,
            "wrapper: prolog and epilog run Holdfast first; runner: as checks of Soperator's runner",
        ),
        "slurm_operator_version": Value(
            r"[0-9]+\.[0-9]+[\w.+-]*",
            "5.0.0",
            "your release of Soperator, 2.0 or newer; the recipe's variable of the same name",
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

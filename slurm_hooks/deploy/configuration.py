"""A first ``holdfast.yaml``: every check of the catalogue by name, each in mode observe."""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.render import extra_settings as extra
from holdfast.render.document import Document, Value
from holdfast.vocabulary import Mode
from slurm_hooks import checks
from slurm_hooks.deploy import PACKAGE

_WIDTH = 100
_HGX_NVSWITCHES = "4"

VALUES: Mapping[str, Value] = {
    "cluster": Value(r"[\w.-]+", "cluster", "the name of this cluster"),
    "gpus": Value(r"[0-9]|[1-5][0-9]|6[0-4]", "8", "GPUs of each node, 0 to 64"),
    "mounts": Value(
        r"(/[\w./@+-]*(,/[\w./@+-]*)*)?", "", "mount points that jobs need, separated by commas"
    ),
    "nvswitches": Value(
        r"([0-9]|[1-5][0-9]|6[0-4])?",
        "",
        "NVSwitches that each node must have; empty: 4 with 8 GPUs (HGX H100), else those that were "
        "seen before; 0 where the hypervisor has them",
    ),
    "history": Value(
        r"(/[\w./@+-]+)?",
        "",
        "folder for the history of nodes and GPUs, on a filesystem that all nodes share",
    ),
    "extra_configuration": extra.VALUE,
}

TAKEN: Mapping[str, str] = {
    "cluster": "cluster",
    "paths": "history",
    "node.expected_gpus": "gpus",
    "node.mounts": "mounts",
}
"""What the template writes → the value that sets it."""

BUDGET = "{max_nodes: 2, max_share: 0.1}"
"""``node.budget`` unless the further settings have it."""


def context(values: Mapping[str, str]) -> Mapping[str, object]:
    """What the template ``holdfast.yaml.j2`` needs besides the values of ``VALUES``."""
    sections = dict(extra.read(values["extra_configuration"], TAKEN))
    node = dict(sections.pop("node", {}))
    given = sections.pop("checks", {})
    return {
        "mounts": [path for path in values["mounts"].split(",") if path],
        "budget": extra.flow(node.pop("budget")) if "budget" in node else BUDGET,
        "more": extra.lines(node, 2) + extra.lines(sections),
        "checks": list(_checks(_limits(values), given)),
    }


def _limits(values: Mapping[str, str]) -> Mapping[str, Mapping[str, object]]:
    """Limits of the checks that cannot find out by themselves what a new node must have."""
    nvswitches = values["nvswitches"] or (_HGX_NVSWITCHES if values["gpus"] == "8" else "0")
    return {} if nvswitches == "0" else {"pci_devices": {"nvswitches": int(nvswitches)}}


def _checks(
    limits: Mapping[str, Mapping[str, object]], given: Mapping[str, Mapping[str, Any]]
) -> Iterator[Mapping[str, str]]:
    """Each check's entry, and its comment, shortened to the rest of the line."""
    width = max(map(len, checks.CATALOGUE))
    for name in checks.CATALOGUE:
        entry = f"{f'{name}:':{width + 1}} {_entry(limits.get(name, {}), given.get(name) or {})}"
        about = first_sentence(
            inspect.getdoc(importlib.import_module(checks.CATALOGUE[name])) or ""
        )
        room = _WIDTH - len(entry) - len("    # ")
        yield {"entry": entry, "about": textwrap.shorten(about, room, placeholder=" …")}


def _entry(limits: Mapping[str, object], given: Mapping[str, Any]) -> str:
    limits = {**limits, **(given.get("limits") or {})}
    mode = given.get("mode") or Mode.OBSERVE.value
    own = ", ".join(f"{key}: {extra.flow(value)}" for key, value in limits.items())
    # The blank before the brace: Helm would take two braces for the end of an action.
    text = f"limits: {{{own}}} " if limits else ""
    return f"{{mode: {mode}{', ' if text else ''}{text}}}"


def first_sentence(doc: str) -> str:
    """Up to the first full stop or colon that ends a clause, on one line."""
    words = " ".join(doc.split("\n\n")[0].split())
    for end in (". ", ": ", "; "):
        words = words.partition(end)[0]
    return words.rstrip(".:;")


FILE = Document(
    about="a first holdfast.yaml, every check in mode observe",
    package=PACKAGE,
    template="holdfast.yaml.j2",
    context=context,
    values=VALUES,
)

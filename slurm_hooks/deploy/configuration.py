"""A first ``holdfast.yaml``: every check of the catalogue by name, each in mode observe."""

from __future__ import annotations

import importlib
import inspect
import json
import textwrap
from collections.abc import Iterator, Mapping

from holdfast.document import Document, Value
from holdfast.vocabulary import Mode
from slurm_hooks import checks

_WIDTH = 100
_HGX_NVSWITCHES = "4"

VALUES: Mapping[str, Value] = {
    "cluster": Value(r"[\w.-]+", "cluster", "how this cluster is called"),
    "gpus": Value(r"[0-9]|[1-5][0-9]|6[0-4]", "8", "GPUs of each node, 0 to 64"),
    "mounts": Value(
        r"(/[\w./@+-]*(,/[\w./@+-]*)*)?", "", "mount points that jobs need, with commas between"
    ),
    "nvswitches": Value(
        r"([0-9]|[1-5][0-9]|6[0-4])?",
        "",
        "NVSwitches that each node must have; empty: 4 with 8 GPUs (HGX H100), else those that were "
        "seen; 0 where a hypervisor keeps them",
    ),
    "history": Value(
        r"(/[\w./@+-]+)?",
        "",
        "folder for nodes' and GPUs' past, on a filesystem that all nodes share",
    ),
}


def text(values: Mapping[str, str]) -> str:
    """The file. Raises KeyError without the values of ``VALUES``."""
    mounts = ", ".join(path for path in values["mounts"].split(",") if path)
    return "".join(
        (
            "# Holdfast's configuration; all keys: docs/reference/configuration.md.\n",
            "# `holdfast config check FILE` before it goes out. A running agent takes it over by itself.\n",
            f"cluster: {json.dumps(values['cluster'])}\n",
            *_history(values["history"]),
            "node:\n",
            f"  expected_gpus: {values['gpus']}\n",
            f"  mounts: [{mounts}]\n",
            "  # What Holdfast may take out of service at once: the larger of the two.\n",
            "  budget: {max_nodes: 2, max_share: 0.1}\n",
            "# off, observe (look, touch nothing), comment (say it in Slurm), drain.\n",
            "checks:\n",
            *_checks(_limits(values)),
        )
    )


def _history(folder: str) -> Iterator[str]:
    """Left to a person where it is not told: which filesystem is shared nobody can guess."""
    yield "# What happened to nodes and GPUs. On a filesystem that all nodes share (root writes there), and\n"
    yield "# `holdfast history` and `explain` know it everywhere, and a GPU keeps its past when it moves.\n"
    yield (
        f"paths: {{history: {folder}}}\n"
        if folder
        else "# paths: {history: /SHARED/holdfast-history}\n"
    )


def _limits(values: Mapping[str, str]) -> Mapping[str, str]:
    """Of the checks that cannot know by themselves what a new node must have."""
    nvswitches = values["nvswitches"] or (_HGX_NVSWITCHES if values["gpus"] == "8" else "0")
    return {} if nvswitches == "0" else {"pci_devices": f"nvswitches: {nvswitches}"}


def _checks(limits: Mapping[str, str]) -> Iterator[str]:
    width = max(map(len, checks.CATALOGUE))
    for name in checks.CATALOGUE:
        # The blank keeps two braces apart, which Helm would take for one of its own.
        own = f", limits: {{{limits[name]}}} " if name in limits else ""
        entry = f"{f'{name}:':{width + 1}} {{mode: {Mode.OBSERVE.value}{own}}}"
        about = first_sentence(
            inspect.getdoc(importlib.import_module(checks.CATALOGUE[name])) or ""
        )
        room = _WIDTH - len(entry) - len("    # ")
        yield f"  {entry}  # {textwrap.shorten(about, room, placeholder=' …')}\n"


def first_sentence(doc: str) -> str:
    """Up to the first full stop or colon that ends a clause, on one line."""
    words = " ".join(doc.split("\n\n")[0].split())
    for end in (". ", ": ", "; "):
        words = words.partition(end)[0]
    return words.rstrip(".:;")


FILE = Document(
    about="a first holdfast.yaml, every check in mode observe", make=text, values=VALUES
)

"""A first ``holdfast.yaml``: every check of the catalogue by name, each in mode observe."""

from __future__ import annotations

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
    "cluster": Value(r"[\w.-]+", "cluster", "name of this cluster"),
    "gpus": Value(r"[0-9]|[1-5][0-9]|6[0-4]", "8", "GPUs of each node, 0 to 64"),
    "mounts": Value(
        r"(/[\w./@+-]*(,/[\w./@+-]*)*)?", "", "mount points that jobs need, separated by commas"
    ),
    "nvswitches": Value(
        r"([0-9]|[1-5][0-9]|6[0-4])?",
        "",
        "NVSwitches that each node must have; empty: 4 with 8 GPUs (HGX H100), else those found at "
        "first; 0 where a hypervisor owns them",
    ),
    "history": Value(
        r"(/[\w./@+-]+)?",
        "",
        "folder for the history of nodes and GPUs, on a filesystem that all nodes share",
    ),
}


def text(values: Mapping[str, str]) -> str:
    """The text of the file. Raises KeyError if a value of ``VALUES`` is missing."""
    mounts = ", ".join(path for path in values["mounts"].split(",") if path)
    return "".join(
        (
            "# Holdfast's configuration; all keys: docs/reference/configuration.md.\n",
            "# Run `holdfast config check FILE` before you install it. A running agent reloads it.\n",
            f"cluster: {json.dumps(values['cluster'])}\n",
            *_history(values["history"]),
            "node:\n",
            f"  expected_gpus: {values['gpus']}\n",
            f"  mounts: [{mounts}]\n",
            "  # Nodes that Holdfast may have drained at the same time: the larger of the two.\n",
            "  budget: {max_nodes: 2, max_share: 0.1}\n",
            "# off, observe (report only), comment (comment in Slurm), drain.\n",
            "checks:\n",
            *_checks(_limits(values)),
        )
    )


def _history(folder: str) -> Iterator[str]:
    """A commented line if no folder is given: the shared filesystem is not known."""
    yield "# The history of nodes and GPUs. Put it on a filesystem that all nodes share (root writes there):\n"
    yield "# `holdfast history` and `explain` then work on every node, and a GPU keeps its history when moved.\n"
    yield (
        f"paths: {{history: {folder}}}\n"
        if folder
        else "# paths: {history: /SHARED/holdfast-history}\n"
    )


def _limits(values: Mapping[str, str]) -> Mapping[str, str]:
    """Limits of the checks that cannot find out by themselves what a new node must have."""
    nvswitches = values["nvswitches"] or (_HGX_NVSWITCHES if values["gpus"] == "8" else "0")
    return {} if nvswitches == "0" else {"pci_devices": f"nvswitches: {nvswitches}"}


def _checks(limits: Mapping[str, str]) -> Iterator[str]:
    width = max(map(len, checks.CATALOGUE))
    for name in checks.CATALOGUE:
        # The space separates two braces, which Helm would read as its own.
        own = f", limits: {{{limits[name]}}} " if name in limits else ""
        entry = f"{f'{name}:':{width + 1}} {{mode: {Mode.OBSERVE.value}{own}}}"
        about = first_sentence(inspect.getdoc(checks.load(name)) or "")
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

"""Digests of Holdfast's values as the parts of ``scripts/hold_against`` render them.

The record keeps them: after a change of a template, or of a command of a page that a manager's part types, it is
no longer about today's values.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import yaml

from charts.operators import pages
from holdfast.cli.commands.render import render_text
from holdfast.version import VERSION

CHARTS, RUNNER, MANAGER, BESIDE = "charts", "runner", "manager", "beside"
"""The parts. The last one is about the bridge, and renders nothing."""

SLINKY = {"image": "registry.example.org/holdfast:1", "mounts": "/mnt/training"}
HOOKS = ("wrapper", "runner")

Rendered = tuple[str, Mapping[str, str]]
"""A document of ``holdfast render``, and its values."""

_SOPERATOR: tuple[Rendered, ...] = tuple(("soperator", {"hooks": hooks}) for hooks in HOOKS)
_NODESET: Rendered = ("soperator-nodeset", {})

_RENDERED: Mapping[str, Mapping[str, tuple[Rendered, ...]]] = {
    "soperator": {
        CHARTS: (*_SOPERATOR, ("soperator", {"as": "flux"}), _NODESET),
        RUNNER: _SOPERATOR,
        MANAGER: (("soperator", {}), _NODESET),
    },
    "slinky": {CHARTS: (("slinky", SLINKY),), MANAGER: (("slinky", SLINKY),)},
}
"""Project → part → what it renders."""


def digests(project: str) -> Mapping[str, str]:
    """Part → SHA-256 of its documents, without their comments, and of the commands that it types."""
    found = {}
    for part, documents in _RENDERED[project].items():
        about: list[Any] = [
            [*yaml.safe_load_all(render_text(name, **given))] for name, given in documents
        ]
        if part == MANAGER:
            about += [
                pages.typed(project, what).replace(VERSION, "VERSION")
                for what in pages.BLOCKS[project]
            ]
        found[part] = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    return found


def changed(project: str, recorded: Mapping[str, str]) -> list[str]:
    """A line with the command for each part whose record is not about today's values."""
    return [
        f"the record of {project}, {part}, is about other values: run"
        f" scripts/hold_against {project} CHECKOUT --only {part}"
        + (" --manager PROGRAM" if part == MANAGER else "")
        + (" --flux PROGRAM" if (project, part) == ("soperator", MANAGER) else "")
        for part, digest in digests(project).items()
        if recorded.get(part) != digest
    ]

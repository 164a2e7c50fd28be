"""Further settings of a document that contains a configuration: a file with the sections to add to it.

``holdfast render … --set extra_configuration=FILE``; in Terraform an input of the same name. The file
has the form of holdfast.yaml. It may not set what another value of the document writes.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from holdfast.config.load import Word, check, plain_sections
from holdfast.config.sections import SECTIONS, schema_of
from holdfast.errors import UsageError
from holdfast.render.document import Value

VALUE = Value(
    ".*", "", "a file with further sections of holdfast.yaml (docs/reference/configuration.md)"
)
"""The value ``extra_configuration`` of a document."""

Sections = Mapping[str, Mapping[str, Any]]


def read(path: str, taken: Mapping[str, str], allowed: Mapping[str, Any] = SECTIONS) -> Sections:
    """The sections of the file; none if ``path`` is empty.

    ``taken``: a section, or a key such as ``node.mounts``, and the value of the document that writes it
    (empty: none does). ``allowed``: the sections that the document's reader reads.
    Raises ``UsageError`` with every problem, one line each.
    """
    if not path:
        return {}
    if not Path(path).is_file():
        raise UsageError(f"extra_configuration: no such file: {path}")
    problems = check(Path(path), _schemas())
    if problems:
        raise UsageError("\n".join(("extra_configuration:", *problems)))
    found = {name: section or {} for name, section in plain_sections(Path(path)).items()}
    refused = list(_refused(found, taken, allowed))
    if refused:
        raise UsageError("\n".join((f"extra_configuration: {path}:", *refused)))
    return found


def _refused(
    found: Sections, taken: Mapping[str, str], allowed: Mapping[str, Any]
) -> Iterator[str]:
    for name, section in found.items():
        if name not in allowed:
            yield f"{name}: nothing here reads this section; use {', '.join(sorted(allowed))}"
            continue
        for key in (name, *(f"{name}.{key}" for key in section)):
            if key in taken:
                remedy = f"use --set {taken[key]}=" if taken[key] else "leave it out"
                yield f"{key} is written by this document: {remedy}"


def _schemas() -> Mapping[str, Any]:
    """The schemas of the sections whose package is installed here."""
    schemas = {}
    for name in SECTIONS:
        try:
            schemas[name] = schema_of(name)
        except ImportError:
            continue
    return schemas


def keys() -> Mapping[str, list[str]]:
    """The keys of each section that is no table of names. For the inputs of Terraform."""
    return {
        name: [field.name for field in dataclasses.fields(schema)]
        for name, schema in _schemas().items()
        if dataclasses.is_dataclass(schema)
    }


def flow(value: object) -> str:
    """``value`` in YAML's flow style, without two braces side by side: Helm would take them for an action.

    Raises ``UsageError`` for a text with two opening ones.
    """
    if isinstance(value, Word):
        return str(value)
    if isinstance(value, Mapping):
        text = ", ".join(f"{flow(key)}: {flow(one)}" for key, one in value.items())
        return f"{{{text}{' ' if text.endswith('}') else ''}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(flow, value))}]"
    text = json.dumps(value)
    if "{{" in text:
        raise UsageError(f"extra_configuration: a text cannot contain two opening braces: {text}")
    return text


def lines(section: Mapping[str, Any], indent: int = 0) -> str:
    """A line for each entry, each one after a line break: text that follows a line of YAML."""
    return "".join(f"\n{' ' * indent}{key}: {flow(value)}" for key, value in section.items())

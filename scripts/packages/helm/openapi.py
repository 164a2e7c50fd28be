"""JSON Schemas of Kubernetes' objects for kubeconform, from the OpenAPI of the releases.

Each release's Go module ``k8s.io/kubernetes`` contains its OpenAPI. The module's content is pinned by
the checksum of that file.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from testbed.errors import SandboxError
from testbed.kube import go_module
from testbed.kube.toolchain import Say

OPENAPI: Mapping[str, str] = {
    "1.30.14": "137f22097f146caa3150deda2eccceec1ecd0b628054d1887bf55f93e715c7cb",
    "1.36.2": "dcede2063da1d7ad62ecb5af8adb6d7fabd0b52385a7fa0048afb491dac90450",
}
"""Kubernetes release → SHA-256 of its ``swagger.json``: the oldest that Holdfast supports, and a new one."""

_GVK = "x-kubernetes-group-version-kind"
_REF = "#/definitions/"

Object = Mapping[str, Any]


def openapi(version: str, cache: Path) -> Path | None:
    """The OpenAPI of a release, or None where ``download`` was not called."""
    path = cache / "helm" / f"openapi-{version}-{OPENAPI[version][:12]}.json"
    return path if path.is_file() else None


def download(cache: Path, say: Say) -> None:
    """Puts the OpenAPI of each release into the cache (30 MB each, once).

    Raises ``SandboxError`` where a module cannot be downloaded, or has another content.
    """
    for version, wanted in OPENAPI.items():
        if openapi(version, cache):
            continue
        say(f"downloading the OpenAPI of Kubernetes {version} (a Go module, once) …")
        folder = go_module.download(f"k8s.io/kubernetes@v{version}", cache, say).folder
        content = (folder / "api/openapi-spec/swagger.json").read_bytes()
        found = hashlib.sha256(content).hexdigest()
        if found != wanted:
            raise SandboxError(f"the OpenAPI of Kubernetes {version} has the checksum {found}")
        target = cache / "helm" / f"openapi-{version}-{wanted[:12]}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(".part")
        part.write_bytes(content)
        part.rename(target)


def write_schemas(openapi_file: Path, objects: Iterable[Object], folder: Path) -> set[str]:
    """Writes a schema for each kind of ``objects`` into ``folder``, under kubeconform's names.

    Returns the kinds that this release does not know (those of other projects).
    """
    definitions = json.loads(openapi_file.read_text())["definitions"]
    names = {
        (gvk["group"], gvk["version"], gvk["kind"]): name
        for name, one in definitions.items()
        for gvk in one.get(_GVK, ())
    }
    unknown = set()
    for item in objects:
        group, _, version = item["apiVersion"].rpartition("/")
        name = names.get((group, version, item["kind"]))
        if name is None:
            unknown.add(str(item["kind"]))
            continue
        needed = set(_closure(name, definitions))
        schema = {
            "$ref": f"{_REF}{name}",
            "definitions": {each: _strict(definitions[each]) for each in needed},
        }
        suffix = "-".join(word for word in (group.split(".")[0], version) if word)
        (folder / f"{item['kind'].lower()}-{suffix}.json").write_text(json.dumps(schema))
    return unknown


SCHEMA_FILES = "{{ .ResourceKind }}{{ .KindSuffix }}.json"
"""The names of those files, for kubeconform's ``-schema-location``."""


def _closure(name: str, definitions: Mapping[str, Any]) -> Iterator[str]:
    """The definition and all that it refers to."""
    waiting, seen = [name], {name}
    while waiting:
        here = waiting.pop()
        yield here
        for other in re.findall(rf'"{_REF}([^"]+)"', json.dumps(definitions[here])):
            if other not in seen:
                seen.add(other)
                waiting.append(other)


def _strict(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """No unknown keys, as in the API server's strict validation; ``int-or-string`` takes both."""
    if definition.get("format") == "int-or-string":
        return {"type": ["string", "integer"]}
    if "properties" in definition and "additionalProperties" not in definition:
        return {**definition, "additionalProperties": False}
    return definition

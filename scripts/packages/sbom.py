"""Software bills of materials in CycloneDX 1.5: what is inside of a package or an image."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

PACKAGE = "pkg:{kind}/{name}@{version}"
"""A package URL: its kind (``pypi``, ``deb/debian``), name and version."""

_SPACE = uuid.UUID("6e1f2f52-6a0e-5d0c-9a53-6f6c64666173")
"""Any constant: the serial number follows from the content, so the same content has the same one."""


def cyclonedx(
    name: str, version: str, packages: Sequence[str], licences: Mapping[str, str]
) -> Mapping[str, Any]:
    """The document of ``name``. ``packages``: package URLs. ``licences``: package → its licence.

    It has no time: the same content gives the same document.
    """
    top = f"{name}@{version}"
    found = sorted(set(packages))
    content = "\n".join([top, *found])
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_SPACE, content)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": top,
                "name": name,
                "version": version,
                "licenses": [{"license": {"id": "MIT"}}],
            }
        },
        "components": [_component(url, licences) for url in found],
        "dependencies": [{"ref": top, "dependsOn": found}],
    }


def _component(url: str, licences: Mapping[str, str]) -> Mapping[str, Any]:
    place, _, version = url.rpartition("@")
    name = unquote(place.rpartition("/")[2])
    known = licences.get(name)
    return {
        "type": "library",
        "bom-ref": url,
        "name": name,
        "version": unquote(version),
        "purl": url,
        **({"licenses": [{"license": {"name": known}}]} if known else {}),
    }

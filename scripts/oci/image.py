"""The archive of an image."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oci.layer import Layer, digest_of

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """``layers``: the lowest first. ``config``: the image's settings (``User``, ``Env``, …).

    ``name``: the name that containerd gives the image when it imports the archive, with a tag, or
    without one: then it gets the digest (``NAME@sha256:…``). Empty: none.
    """

    layers: tuple[Layer, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""


def write(target: Path, image: Image) -> str:
    """Writes the archive. Returns the image's digest, ``sha256:…``; ``reference`` has its name."""
    blobs: dict[str, Path | bytes] = {}
    layers = [_put(blobs, one.path, _LAYER + "+gzip" * one.compressed) for one in image.layers]
    labels = dict(image.labels)
    config = {
        "architecture": ARCHITECTURE.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {**image.config, **({"Labels": labels} if labels else {})},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{one.content}" for one in image.layers]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _put(blobs, _json(config), _CONFIG),
        "layers": layers,
        **({"annotations": labels} if labels else {}),
    }
    entry = _put(blobs, _json(manifest), _MANIFEST)
    digest = str(entry["digest"])
    if image.name:
        # containerd gives the image the name that stands in its own annotation.
        entry["annotations"] = {"io.containerd.image.name": reference(image.name, digest)}
    part = target.with_name(f"{target.name}.part")
    with tarfile.open(part, "w", format=tarfile.PAX_FORMAT) as archive:
        _member(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _member(archive, "index.json", _json({"schemaVersion": 2, "manifests": [entry]}))
        for name, content in sorted(blobs.items()):
            _member(archive, f"blobs/sha256/{name}", content)
    part.rename(target)
    return digest


def reference(name: str, digest: str) -> str:
    """By digest, unless the name has a tag."""
    return name if ":" in name else f"{name}@{digest}"


def _member(archive: tarfile.TarFile, name: str, content: Path | bytes) -> None:
    info = tarfile.TarInfo(name)
    info.mode = 0o644
    if isinstance(content, bytes):
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
        return
    info.size = content.stat().st_size
    with content.open("rb") as source:
        archive.addfile(info, source)


def _put(blobs: dict[str, Path | bytes], content: Path | bytes, kind: str) -> dict[str, Any]:
    """Adds a blob; returns its descriptor."""
    if isinstance(content, bytes):
        digest, size = hashlib.sha256(content).hexdigest(), len(content)
    else:
        digest, size = digest_of(content), content.stat().st_size
    blobs[digest] = content
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": size}


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()

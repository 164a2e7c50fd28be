"""Container images from files, without a daemon: archives in the OCI layout, which containerd imports.

The same files give the same bytes, and so the same digest, whatever the machine or the time.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import stat
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_SPECIAL_BITS = stat.S_ISUID | stat.S_ISGID
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """``layers``: tar files, the lowest first. ``config``: the image's settings (``User``, ``Env``, …)."""

    name: str
    layers: tuple[Path, ...]
    config: Mapping[str, Any] = field(default_factory=dict)


def write_layer(target: Path, folder: Path, keep: Callable[[str], bool] = lambda _: True) -> None:
    """The files of ``folder`` as a tar: in order of their names, without times and setuid bits.

    ``keep``: whether a name below ``folder`` (``usr/bin/python3``) belongs to the layer.
    """
    part = target.with_name(target.name + ".part")
    with tarfile.open(part, "w", format=tarfile.PAX_FORMAT) as archive:
        for name in _names(folder, ""):
            if keep(name):
                _add(archive, folder / name, name)
    part.rename(target)


def write_image(target: Path, image: Image) -> str:
    """Writes the image as one archive. Returns its reference: by digest (``NAME@sha256:…``), unless its
    name has a tag.
    """
    blobs: dict[str, Path | bytes] = {}
    layers = []
    for path in image.layers:
        digest = _digest_of(path)
        blobs[digest] = path
        layers.append(
            {"mediaType": _LAYER, "digest": f"sha256:{digest}", "size": path.stat().st_size}
        )
    config = _bytes(
        {
            "architecture": ARCHITECTURE.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": dict(image.config),
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
        }
    )
    manifest = _bytes(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _put(blobs, config, _CONFIG),
            "layers": layers,
        }
    )
    entry = _put(blobs, manifest, _MANIFEST)
    tagged = ":" in image.name
    reference = image.name if tagged else f"{image.name}@{entry['digest']}"
    # containerd gives the image the name that stands in its own annotation.
    entry["annotations"] = {"io.containerd.image.name": reference}
    index = _bytes({"schemaVersion": 2, "manifests": [entry]})
    part = target.with_name(target.name + ".part")
    with tarfile.open(part, "w", format=tarfile.PAX_FORMAT) as archive:
        _member(archive, "oci-layout", _bytes({"imageLayoutVersion": "1.0.0"}))
        _member(archive, "index.json", index)
        for digest, content in sorted(blobs.items()):
            _member(archive, f"blobs/sha256/{digest}", content)
    part.rename(target)
    return reference


def _names(folder: Path, below: str) -> list[str]:
    """Names of all files and folders, each folder before what is in it."""
    found = []
    for entry in sorted(os.scandir(folder / below), key=lambda entry: entry.name):
        name = f"{below}/{entry.name}" if below else entry.name
        found.append(name)
        if entry.is_dir(follow_symlinks=False):
            found += _names(folder, name)
    return found


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    if path.is_socket():
        return
    info = archive.gettarinfo(path, name)
    info.mtime = 0
    info.mode &= ~_SPECIAL_BITS
    info.uname = info.gname = ""
    if info.isreg():
        with path.open("rb") as content:
            archive.addfile(info, content)
    else:
        archive.addfile(info)


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


def _put(blobs: dict[str, Path | bytes], content: bytes, media_type: str) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    blobs[digest] = content
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def _digest_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as content:
        while block := content.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _bytes(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()

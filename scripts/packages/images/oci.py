"""Images as archives in the OCI layout, which podman, skopeo and containerd take.

The same files give the same bytes, and so the same digest, whatever the time or the file system.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import platform
import shutil
import stat
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}
_SETUID = stat.S_ISUID | stat.S_ISGID
_LEVEL = 6
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """``path``: the compressed tar. ``content``: the digest of the tar itself."""

    path: Path
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """``layers``: the lowest first. ``config``: the image's settings (``User``, ``Env``, …)."""

    layers: tuple[Layer, ...]
    labels: Mapping[str, str]
    config: Mapping[str, Any] = field(default_factory=dict)


def layer(target: Path, folder: Path, keep: Callable[[str], bool] = lambda _: True) -> Layer:
    """The files of ``folder`` in the order of their names, without times, names of owners, and setuid.

    ``keep``: whether a name below ``folder`` (``usr/bin/python3``) belongs to the layer.
    """
    part = target.with_name(f"{target.name}.part")
    with tarfile.open(part, "w", format=tarfile.PAX_FORMAT) as archive:
        for name in _names(folder, ""):
            if keep(name):
                _add(archive, folder / name, name)
    content = _digest(part)
    with (
        part.open("rb") as plain,
        target.open("wb") as packed,
        gzip.GzipFile("", "wb", _LEVEL, packed, 0) as out,
    ):
        shutil.copyfileobj(plain, out, _BLOCK)
    part.unlink()
    return Layer(path=target, content=content)


def write(target: Path, image: Image) -> str:
    """Writes the archive. Returns the image's digest, ``sha256:…``."""
    blobs: dict[str, Path | bytes] = {}
    layers = [_put(blobs, one.path, _LAYER) for one in image.layers]
    config = {
        "architecture": _ARCHITECTURE.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {**image.config, "Labels": dict(image.labels)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{one.content}" for one in image.layers]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _put(blobs, _json(config), _CONFIG),
        "layers": layers,
        "annotations": dict(image.labels),
    }
    entry = _put(blobs, _json(manifest), _MANIFEST)
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        _member(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _member(archive, "index.json", _json({"schemaVersion": 2, "manifests": [entry]}))
        for digest, content in sorted(blobs.items()):
            _member(archive, f"blobs/sha256/{digest}", content)
    return str(entry["digest"])


def _names(folder: Path, below: str) -> Iterator[str]:
    """Names of all files and folders, each folder before what is in it."""
    for entry in sorted(os.scandir(folder / below), key=lambda entry: entry.name):
        name = f"{below}/{entry.name}" if below else entry.name
        yield name
        if entry.is_dir(follow_symlinks=False):
            yield from _names(folder, name)


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    if path.is_socket():
        return
    info = archive.gettarinfo(path, name)
    info.mtime, info.uname, info.gname = 0, "", ""
    info.mode &= ~_SETUID
    if info.islnk():
        # A hard link would depend on the order of inodes: each name has its own copy.
        info.type, info.linkname, info.size = tarfile.REGTYPE, "", path.stat().st_size
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


def _put(blobs: dict[str, Path | bytes], content: Path | bytes, kind: str) -> dict[str, Any]:
    """Adds a blob; returns its descriptor."""
    if isinstance(content, bytes):
        digest, size = hashlib.sha256(content).hexdigest(), len(content)
    else:
        digest, size = _digest(content), content.stat().st_size
    blobs[digest] = content
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": size}


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as content:
        while block := content.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()

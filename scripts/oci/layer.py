"""The layers of an image: tars of folders."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import stat
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_SETUID = stat.S_ISUID | stat.S_ISGID
_LEVEL = 6
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """``path``: the tar, perhaps compressed. ``content``: the digest (hexadecimal) of the tar itself."""

    path: Path
    content: str
    compressed: bool


def write_tar(target: Path, folder: Path, keep: Callable[[str], bool] = lambda _: True) -> None:
    """The files of ``folder`` in the order of their names, without times, names of owners, and setuid bits.

    ``keep``: whether a name below ``folder`` (``usr/bin/python3``) belongs to the layer.
    """
    part = target.with_name(f"{target.name}.part")
    with tarfile.open(part, "w", format=tarfile.PAX_FORMAT) as archive:
        for name in _names(folder, ""):
            if keep(name):
                _add(archive, folder / name, name)
    part.rename(target)


def of_tar(path: Path) -> Layer:
    """A tar of ``write_tar`` as a layer, not compressed."""
    return Layer(path=path, content=digest_of(path), compressed=False)


def compressed(target: Path, folder: Path, keep: Callable[[str], bool] = lambda _: True) -> Layer:
    """The layer of ``folder`` in the compressed file ``target``."""
    plain = target.with_name(f"{target.name}.tar")
    write_tar(plain, folder, keep)
    content = digest_of(plain)
    with (
        plain.open("rb") as source,
        target.open("wb") as packed,
        gzip.GzipFile("", "wb", _LEVEL, packed, 0) as out,
    ):
        shutil.copyfileobj(source, out, _BLOCK)
    plain.unlink()
    return Layer(path=target, content=content, compressed=True)


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    found = hashlib.sha256()
    with path.open("rb") as content:
        while block := content.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


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

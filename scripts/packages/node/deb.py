"""The .deb, written directly: two tar files in an ar archive (deb(5)).

No tool is needed, and the same tree gives the same bytes whatever dpkg is installed.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from holdfast.version import VERSION
from packages.node import scripts
from packages.node.tree import ABOUT, SUMMARY, Tree, tree

_CONTROL = f"""\
Package: holdfast
Version: {VERSION}
Architecture: all
Maintainer: Holdfast
Installed-Size: {{size_kib}}
Depends: python3 (>= 3.10)
Section: admin
Priority: optional
Description: {SUMMARY}
 {ABOUT}
"""

_HEAD = "#!/bin/sh\nset -e\n"


def write(target: Path) -> None:
    """Raises ``SandboxError`` where this checkout's environment is not that of the lock."""
    content = tree()
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.gz": _tar(_control(content)),
        "data.tar.gz": _tar(content),
    }
    target.write_bytes(b"!<arch>\n" + b"".join(_member(*one) for one in members.items()))


def _control(content: Tree) -> Tree:
    size_kib = sum(-(-len(one) // 1024) for one in content.files.values())
    sums = "".join(
        f"{hashlib.md5(one, usedforsecurity=False).hexdigest()}  {name}\n"
        for name, one in sorted(content.files.items())
    )
    files = {"control": _CONTROL.format(size_kib=size_kib), "md5sums": sums, **_maintainer()}
    return Tree(
        files={name: text.encode() for name, text in files.items()},
        programs=frozenset(_maintainer()),
    )


def _maintainer() -> Mapping[str, str]:
    def when(words: str, body: str) -> str:
        return f'case "$1" in {words})\n{body};; esac\n'

    return {
        "preinst": _HEAD + when("install | upgrade", scripts.BEFORE),
        "postinst": _HEAD + when("configure", scripts.AFTER),
        "prerm": _HEAD
        + when("upgrade", scripts.UPGRADED)
        + when("remove | deconfigure", scripts.REMOVED),
        "postrm": _HEAD
        + when("remove", scripts.GONE)
        + when("purge", scripts.GONE + scripts.PURGED),
    }


def _tar(content: Tree) -> bytes:
    """Folders first, everything root's, without times."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        # dpkg would remove an empty /opt together with the package.
        for name in (one for one in content.folders if one != "opt"):
            archive.addfile(_info(name, tarfile.DIRTYPE, 0o755))
        for name, one in sorted(content.files.items()):
            info = _info(name, tarfile.REGTYPE, 0o755 if name in content.programs else 0o644)
            info.size = len(one)
            archive.addfile(info, io.BytesIO(one))
        for name, to in sorted(content.links.items()):
            info = _info(name, tarfile.SYMTYPE, 0o777)
            info.linkname = to
            archive.addfile(info)
    return gzip.compress(packed.getvalue(), mtime=0)


def _info(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(f"./{name}")
    info.type, info.mode = kind, mode
    info.uname = info.gname = "root"
    return info


def _member(name: str, content: bytes) -> bytes:
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n"
    return head.encode() + content + b"\n" * (len(content) % 2)

"""The lower layer of both images: a minimal Debian with few more packages, by mmdebstrap."""

from __future__ import annotations

import fcntl
import fnmatch
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from testbed.kube.toolchain import Say
from testbed.rootfs import roots

SUITE, DEBIAN = "trixie", "13"
"""As in the Containerfiles; its Slurm is 24.11."""

_EPOCH_S = "315532800"

_LEFT_OUT = (
    *("dev/*", "proc/*", "sys/*", "run/*", "tmp/*", "var/tmp/*", "mnt/*"),
    *("usr/share/doc/*", "usr/share/man/*", "usr/share/locale/*", "usr/share/info/*"),
    *("var/cache/*", "var/log/*", "var/lib/apt/lists/*", "var/lib/dpkg/*-old"),
    # Of the machine that built it.
    *("etc/apt/sources.list", "etc/resolv.conf", "etc/hostname", "etc/machine-id", "*.pyc"),
    # Made at random where the package munge is installed.
    "etc/munge/munge.key",
)


def keep(name: str) -> bool:
    """Whether a file of the root belongs to an image."""
    return not any(fnmatch.fnmatchcase(name, pattern) for pattern in _LEFT_OUT)


def root(packages: Sequence[str], cache: Path, say: Say) -> Path:
    """A folder with this Debian, made once below ``cache``/images (a minute).

    Two builds from the same state of Debian's archive are equal. Raises ``SandboxError``.
    """
    key = hashlib.sha256(" ".join((SUITE, *packages)).encode()).hexdigest()[:12]
    folder = cache / "images" / f"root-{key}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            say(f"building the images' Debian with {', '.join(packages) or 'no more packages'} …")
            part = folder.with_suffix(".part")
            bootstrap(packages, part)
            part.rename(folder)
    return folder


def bootstrap(packages: Sequence[str], folder: Path) -> None:
    """Unpacks it into ``folder``, which must not exist."""
    options = ["--variant=minbase", '--aptopt=APT::Install-Recommends "false"']
    if packages:
        options.append(f"--include={','.join(packages)}")
    before = os.environ.get("SOURCE_DATE_EPOCH")
    os.environ["SOURCE_DATE_EPOCH"] = _EPOCH_S
    try:
        roots.bootstrap(SUITE, folder, folder.with_suffix(".log"), options)
    finally:
        if before is None:
            del os.environ["SOURCE_DATE_EPOCH"]
        else:
            os.environ["SOURCE_DATE_EPOCH"] = before


def installed(folder: Path) -> list[tuple[str, str]]:
    """Name and version of each Debian package in a root."""
    found = []
    for block in (folder / "var/lib/dpkg/status").read_text(errors="replace").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if fields.get("Status") == "install ok installed":
            found.append((fields["Package"], fields["Version"]))
    return sorted(found)

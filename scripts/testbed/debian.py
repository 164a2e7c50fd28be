"""Programs of Debian packages that are unpacked and not installed."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from testbed.errors import SandboxError


def unpack(package: str, folder: Path) -> Path:
    """Downloads ``package`` into ``folder`` and unpacks it there; returns the folder of its files.

    Raises ``SandboxError`` where there is no apt-get, or where it cannot download the package.
    """
    if shutil.which("apt-get") is None:
        raise SandboxError(
            f"{package}: not found, and apt-get is not available; install it and run this again"
        )
    fetch = ("download", "-qq", package)
    if _apt_get(folder, *fetch):
        _apt_get(folder, "update", "-qq")
        problem = _apt_get(folder, *fetch)
        if problem:
            raise SandboxError(f"apt-get cannot download {package}: {problem}")
    packages = list(folder.glob(f"{package}_*.deb"))
    subprocess.run(["dpkg", "-x", packages[0], folder / "x"], check=True)
    return folder / "x"


def promtool(cache: Path) -> Path:
    """Prometheus' promtool: the machine's, else that of Debian's package, unpacked once.

    Nothing is installed: the package would start a server. Raises ``SandboxError``.
    """
    found = shutil.which("promtool")
    if found:
        return Path(found)
    program = cache / "prometheus" / "promtool"
    program.parent.mkdir(parents=True, exist_ok=True)
    with (program.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.access(program, os.X_OK):
            with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
                files = unpack("prometheus", Path(scratch))
                (files / "usr/bin/promtool").rename(program)
    return program


def _apt_get(folder: Path, *words: str) -> str:
    """Runs apt-get in ``folder``. Empty on success, else its last messages."""
    argv = ["apt-get", "-o", "DPkg::Lock::Timeout=120", *words]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    return " ".join(done.stderr.split())[-300:] if done.returncode else ""

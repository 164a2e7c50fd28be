"""A virtual environment built once from a lock file, outside the repository."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from testbed.errors import SandboxError


def make(lock: Path, parent: Path, say: Callable[[str], None]) -> Path:
    """Folder of an environment with exactly the packages of ``lock``, verified by hash.

    It is in ``parent``, named by the lock and its digest, and built once for each lock and Python.
    Raises ``SandboxError`` when pip cannot install it.
    """
    name = lock.stem
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(f"{version}\n{lock.read_text()}".encode()).hexdigest()[:16]
    folder = parent / f"{name}-{digest}"
    if (folder / "complete").exists():
        return folder
    say(f"{name}: installing it, pinned by hash, into {folder} (once)")
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-cache-dir"]
    for argv in (
        [sys.executable, "-m", "venv", str(folder)],
        [*pip, "--disable-pip-version-check", "--require-hashes", "-r", str(lock)],
    ):
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            output = " ".join(done.stderr.split())[-400:]
            raise SandboxError(f"{name} cannot be installed from {lock.name}: {output}")
    (folder / "complete").touch()
    return folder

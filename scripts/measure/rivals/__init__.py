"""Other people's health checks, put beside ours: each in a venv of its own, pinned by hash, outside the repository."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from testbed.errors import SandboxError
from testbed.paths import cache

_HERE = Path(__file__).parent


def gcm(say: Callable[[str], None]) -> Path:
    """The ``health_checks`` program of gcm (PyPI: gpucm). Raises ``SandboxError`` where it cannot be had."""
    return _venv("gcm", say) / "bin" / "health_checks"


def _venv(name: str, say: Callable[[str], None]) -> Path:
    """The rival's venv in the cache, made once for each lock file."""
    lock = _HERE / f"{name}.lock"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(f"{version}\n{lock.read_text()}".encode()).hexdigest()[:16]
    folder = cache() / "rivals" / f"{name}-{digest}"
    if (folder / "complete").exists():
        return folder
    say(f"{name}: fetching it, pinned by hash, into {folder} (once)")
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-cache-dir"]
    for argv in (
        [sys.executable, "-m", "venv", str(folder)],
        [*pip, "--disable-pip-version-check", "--require-hashes", "-r", str(lock)],
    ):
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            said = " ".join(done.stderr.split())[-400:]
            raise SandboxError(f"{name} cannot be installed from {lock.name}: {said}")
    (folder / "complete").touch()
    return folder

"""Other projects' health checks for comparison, each in its own venv, pinned by hash, outside the repository."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from testbed.paths import cache
from testbed.rootfs import pinned_venv

_HERE = Path(__file__).parent


def gcm(say: Callable[[str], None]) -> Path:
    """The ``health_checks`` program of gcm (PyPI: gpucm). Raises ``SandboxError`` when it cannot be installed."""
    folder = pinned_venv.make(_HERE / "gcm.lock", cache() / "rivals", say)
    return folder / "bin" / "health_checks"

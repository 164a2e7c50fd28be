"""Where the configuration is."""

from __future__ import annotations

import os
from pathlib import Path

DEFAULT_PATH = Path("/etc/holdfast/holdfast.yaml")


def config_path(argument: str | Path | None = None) -> Path:
    """The file to read: the argument, else ``HOLDFAST_CONFIG``, else
    ``/etc/holdfast/holdfast.yaml``.

    It need not exist: a missing file means all defaults.
    """
    return Path(argument or os.environ.get("HOLDFAST_CONFIG") or DEFAULT_PATH)

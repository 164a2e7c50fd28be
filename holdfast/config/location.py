"""The path of the configuration, and the kill switches beside it.

Nothing here parses a file: the kill switches have to work when the configuration is invalid (rule 5).
"""

from __future__ import annotations

import os
from pathlib import Path

DEFAULT_PATH = Path("/etc/holdfast/holdfast.yaml")

ALL = "all"
"""The switch that turns off every action of Holdfast, not only one check."""


def config_path(argument: str | Path | None = None) -> Path:
    """The file to read: the argument, else ``HOLDFAST_CONFIG``, else
    ``/etc/holdfast/holdfast.yaml``.

    It need not exist: a missing file means all defaults.
    """
    return Path(argument or os.environ.get("HOLDFAST_CONFIG") or DEFAULT_PATH)


def switches_off(path: Path | None = None) -> frozenset[str]:
    """Names of the checks that are switched off by a file ``off/NAME`` beside the configuration.

    ``off/all`` turns off every action. The content of the files is ignored: ``touch`` is enough. A
    folder that exists but cannot be listed counts as ``all``: nothing is done while the switches are
    unknown.
    """
    folder = (path or config_path()).parent / "off"
    try:
        return frozenset(entry.name for entry in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError:
        return frozenset({ALL})


def is_off(name: str, path: Path | None = None) -> bool:
    """True when the check ``name``, or everything, is switched off."""
    return bool(switches_off(path) & {name, ALL})

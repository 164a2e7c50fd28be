"""Where the configuration lies, and the kill switches beside it.

Nothing here parses anything: the kill switches must work when the configuration is unreadable (law
5).
"""

from __future__ import annotations

import os
from pathlib import Path

DEFAULT_PATH = Path("/etc/holdfast/holdfast.yaml")

ALL = "all"
"""Name of the switch that turns off every action of Holdfast, not one check only."""


def config_path(argument: str | Path | None = None) -> Path:
    """The file to read: the argument, else ``HOLDFAST_CONFIG``, else
    ``/etc/holdfast/holdfast.yaml``.

    It need not exist: a missing file means all defaults.
    """
    return Path(argument or os.environ.get("HOLDFAST_CONFIG") or DEFAULT_PATH)


def switches_off(path: Path | None = None) -> frozenset[str]:
    """Names of the checks that somebody switched off by a file ``off/NAME`` beside the
    configuration.

    ``off/all`` turns off every action. The files' content does not matter, ``touch`` is enough. A
    folder that is there but cannot be listed reads as ``all``: who could not look must not act.
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

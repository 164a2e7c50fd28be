"""The kill switches: files in the folder ``off/`` beside the configuration.

Nothing here parses a file: the kill switches have to work when the configuration is invalid (rule 5).
"""

from __future__ import annotations

from pathlib import Path

from holdfast.config.path import config_path

ALL = "all"
"""The switch that turns off every action of Holdfast, not only one check."""
NODE_DEATH = "node_death"
"""The switch with which this node's agent sets no other node DOWN."""
FENCE = "fence"
"""The switch with which this node's agent neither stops nor kills tasks that a newer attempt may have replaced."""


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

"""The kill switches that are on, and what each of them stops, for people.

``holdfast.config.kill_switch_files`` reads the switches for the program; this module only describes them.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from pathlib import Path

from holdfast.config.kill_switch_files import ALL, FENCE, NODE_DEATH, switches_off

BRIDGE = "bridge"

_EFFECTS = {
    ALL: "Holdfast acts on nothing here: no drain, comment, kill or requeue; checks only report",
    BRIDGE: "the bridge only writes conditions, labels and Events",
    FENCE: "the agent of this machine neither stops nor kills tasks that a newer attempt may have replaced",
    NODE_DEATH: "the agent of this machine sets no other node DOWN",
}


def described(config: Path, checks: Collection[str]) -> Iterator[str]:
    """A line for each file in ``off/`` beside ``config``: what it stops, or that it has no effect.

    ``checks``: names of all checks. Hidden files do not count (Kubernetes adds some to a mount).
    """
    folder = config.parent / "off"
    for name in sorted(switches_off(config)):
        if name in _EFFECTS:
            yield f"kill switch {folder / name} is on: {_EFFECTS[name]}"
        elif name in checks:
            yield f"kill switch {folder / name} is on: the check {name} does not run"
        elif not name.startswith("."):
            close = difflib.get_close_matches(name, [*checks, *_EFFECTS], n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            yield f"{folder / name} has no effect: there is no check of that name{hint}"

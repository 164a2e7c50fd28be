"""The active faults of a box: one small file for each node, in the box's folder on the host."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testbed.faults.arguments import Args, shown
from testbed.faults.catalogue import KINDS

_FOLDER = "faults"


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """An injected fault that is not healed. ``since``: epoch seconds; ``boot_id``: of the node at that time."""

    kind: str
    args: Args
    since: float
    boot_id: str = ""

    def __str__(self) -> str:
        return shown(self.kind, KINDS[self.kind].arguments, self.args)


@contextlib.contextmanager
def only_one(box_folder: Path) -> Iterator[None]:
    """Lock: one change of a box's faults at a time."""
    (box_folder / _FOLDER).mkdir(exist_ok=True)
    with (box_folder / _FOLDER / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def load(box_folder: Path, where: str) -> list[Active]:
    """The faults of a node (or of the controller), oldest first. Without those that the last power cycle ended."""
    try:
        records = json.loads((box_folder / _FOLDER / f"{where}.json").read_text())
    except FileNotFoundError:
        return []
    now = boot_id(box_folder, where)
    found = [Active(**record) for record in records]
    return [fault for fault in found if not KINDS[fault.kind].until_boot or fault.boot_id == now]


def save(box_folder: Path, where: str, faults: list[Active]) -> None:
    path = box_folder / _FOLDER / f"{where}.json"
    part = path.with_suffix(".part")
    part.write_text(json.dumps([dataclasses.asdict(fault) for fault in faults], indent=1))
    part.rename(path)


def boot_id(box_folder: Path, where: str) -> str:
    """Boot id of the node's last power-on; empty for the controller."""
    try:
        return (box_folder / "nodes" / where / "boot_id").read_text().strip()
    except FileNotFoundError:
        return ""

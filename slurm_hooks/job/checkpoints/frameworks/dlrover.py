"""DLRover's flash checkpoints: ordinary folders or files, and a stage beside them.

Each shard that is saved leaves ``._dlrover_ckpt_stage/STEP.done/RANK``. When there are as many as
shards, the first node removes that folder and writes the step to ``dlrover_latest.txt``
(dlrover/python/elastic_agent/torch/ckpt_saver.py, ``commit_checkpoint``). So a step whose folder is
still there, or that is newer than the tracker, was not committed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast.adapters import safe_file
from slurm_hooks.job.checkpoints.listing import Listing, list_folder

NAME = "dlrover"
TRACKER = "dlrover_latest.txt"
STAGE = "._dlrover_ckpt_stage"
_DONE = ".done"
_MAX_TRACKER_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What DLRover recorded beside its checkpoints. ``committed``: the newest committed step; None: it
    is not known. ``open``: step → how many shards of it are saved.
    """

    committed: int | None
    open: dict[int, int]

    def fault(self, step: int | None) -> str:
        """Why the checkpoint of this step was not committed; empty if it was."""
        if step is None:
            return ""
        if step in self.open:
            return f"not committed by DLRover: only {self.open[step]} shards are saved"
        if self.committed is not None and step > self.committed:
            return f"not committed by DLRover: {TRACKER} is at {self.committed}"
        return ""


def stage(listing: Listing) -> Stage | None:
    """DLRover's records in this folder; None where DLRover does not save to it."""
    if TRACKER not in listing.files and STAGE not in listing.folders:
        return None
    try:
        text = safe_file.read_bytes(listing.path / TRACKER, max_bytes=_MAX_TRACKER_BYTES)
    except OSError:
        text = b""
    number = text.strip()
    return Stage(
        committed=int(number) if number.isdigit() and len(number) < 19 else None,
        open=dict(_open(listing.path / STAGE)) if STAGE in listing.folders else {},
    )


def _open(folder: Path) -> list[tuple[int, int]]:
    try:
        names = list_folder(folder).folders
        done = [name for name in names if name.endswith(_DONE)]
        return [
            (int(name[: -len(_DONE)]), len(list_folder(folder / name).files))
            for name in done
            if name[: -len(_DONE)].isdigit()
        ]
    except (OSError, ValueError):
        return []

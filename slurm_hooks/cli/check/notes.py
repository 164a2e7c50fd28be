"""Lines below the table of ``holdfast check``: kill switches, and a machine without slurmd."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from holdfast.config import kill_switches
from slurm_hooks import checks
from slurm_hooks.settings.settings import Settings

_SYSTEM_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/sbin", "/opt/slurm/sbin")
"""slurmd is often not on a person's PATH."""


def notes(config: Settings) -> Iterator[str]:
    """What a reader of the table must know besides."""
    slurm_bin = config.cluster.slurm.bin
    folders = [*os.environ.get("PATH", "").split(":"), *_SYSTEM_FOLDERS]
    if slurm_bin:
        folders += [slurm_bin, str(Path(slurm_bin).parent / "sbin")]
    if not _has_slurmd(config.cluster.paths.procfs, folders):
        yield (
            "no slurmd found, neither a process nor a program: this machine is not a compute node. "
            "Run holdfast check on a compute node"
        )
    yield from kill_switches.described(config.path, checks.CATALOGUE)


_NAMES = ("slurmd", "slurmd-wlm")
"""After ``scontrol reconfigure`` slurmd has the name of its file, which is Debian's second."""


def _has_slurmd(procfs: Path, folders: list[str]) -> bool:
    if any(os.access(Path(folder or ".") / "slurmd", os.X_OK) for folder in folders):
        return True
    try:
        processes = [entry for entry in procfs.iterdir() if entry.name.isdigit()]
    except OSError:
        return True  # cannot look: not known to be missing
    return any(_name(process) in _NAMES for process in processes)


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return ""  # the process has exited

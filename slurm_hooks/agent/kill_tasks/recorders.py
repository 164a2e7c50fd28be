"""Where the ranks that are killed have a flight recorder: what is kept of their environments, within limits.

A user decides how many processes there are, what their environments contain, and how large these are.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_hooks.node import kernel_files
from slurm_hooks.node.process_scan import uid_of

PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
NAMES = (PIPE, "TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
"""The variables that tell where a rank's named pipe and its dump are."""
MOST_USERS = 8
"""More of them than have jobs on one node."""
MOST_RANKS = 64
"""Of one user. A node has one for each GPU."""
LONGEST = 1024
"""Characters of a path. The recorder of a rank with a longer one is not asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """The flight recorder of one rank. ``env``: only the variables in ``NAMES``."""

    rank: int
    pid: int
    env: Mapping[str, str]


class Recorders:
    """Of all users. ``add`` may be called from several threads."""

    def __init__(self, procfs: Path) -> None:
        self._procfs = procfs
        self._lock = threading.Lock()
        self._by_user: dict[int, dict[int, Recorder]] = {}

    def add(self, pid: int, env: Mapping[str, str]) -> None:
        """Keeps what is needed of a rank's environment, if it has a recorder."""
        if not env.get(PIPE):
            return
        kept = {name: env[name] for name in NAMES if name in env}
        rank = kernel_files.whole(env.get("RANK" if "LOCAL_RANK" in env else "SLURM_PROCID", ""))
        uid = uid_of(self._procfs / str(pid))
        if rank is None or uid is None or any(len(value) > LONGEST for value in kept.values()):
            return
        with self._lock:
            if uid not in self._by_user and len(self._by_user) >= MOST_USERS:
                return
            ranks = self._by_user.setdefault(uid, {})
            if len(ranks) < MOST_RANKS:
                ranks.setdefault(rank, Recorder(rank=rank, pid=pid, env=kept))

    def by_user(self) -> Iterator[tuple[int, Sequence[Recorder]]]:
        """Each uid with its recorders."""
        with self._lock:
            found = {uid: tuple(ranks.values()) for uid, ranks in self._by_user.items()}
        yield from found.items()

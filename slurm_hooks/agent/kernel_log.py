"""The kernel log in the agent's loop: it is opened again after an error, which is logged once."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from holdfast.adapters.log import Log
from holdfast.errors import ProbeError
from slurm_hooks.probes.kmsg.follower import KernelRecord, KmsgFollower

log = Log("agent")


class NewRecords(NamedTuple):
    """``renewed``: the log started again, so its sequence numbers did too."""

    records: list[KernelRecord]
    renewed: bool


class KernelLog:
    """``problem``: why it cannot be read; empty: it can."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._follower: KmsgFollower | None = None
        self.problem = ""

    @property
    def fd(self) -> int:
        """Readable when there may be new records; -1 while the log is not open."""
        return self._follower.fd if self._follower else -1

    def read(self, after_seq: int | None, *, to_end: bool) -> NewRecords | None:
        """The new records, at most some thousands; None: unreadable. ``after_seq``: the last record that an
        earlier agent has read, for the time when the log is opened. ``to_end``: all, for some seconds."""
        try:
            if self._follower is None:
                self._follower = KmsgFollower(self._path, after_seq)
            follower = self._follower
            records = follower.read_all() if to_end else follower.read()
        except ProbeError as error:
            self.close()
            if str(error) != self.problem:
                log.error("kernel log unreadable", why=error)
            self.problem = str(error)
            return None
        self.problem = ""
        renewed, follower.renewed = follower.renewed, False
        return NewRecords(records, renewed)

    def close(self) -> None:
        if self._follower is not None:
            self._follower.close()
            self._follower = None

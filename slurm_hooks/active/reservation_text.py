"""Reservations that keep a node for a test: their names, what they say, and whose they are. Pure.

Everything that a clean-up needs is in Slurm itself: the name says what it is for and where, the
comment who made it, until when it counts, and with which reason the node was drained before. So
whoever comes next (a restarted agent, the next ``holdfast inspect``, on whatever machine) can put
things back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from urllib.parse import quote, unquote

from holdfast.slurm.reservations import Reservation

PREFIX = "holdfast_"
_FORMAT = "holdfast/1"
_UNSAFE = re.compile(r"[^A-Za-z0-9.-]")


class Purpose(str, Enum):
    """Who tests. ``GATE``: the node's own agent, before it gives the node back."""

    GATE = "gate"
    INSPECT = "inspect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """The process that made a reservation: it is gone when its machine booted anew or when no
    process of that pid and start time (ticks, proc(5)) is there.
    """

    host: str
    boot_id: str
    pid: int
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationText:
    """What a reservation of ours says. ``until`` in epoch seconds: after it nobody works on it any
    more. ``drained``: the reason that the node was drained with before the test; empty: it was in
    service.
    """

    purpose: Purpose
    nodes: tuple[str, ...]
    maker: Maker
    until: int
    drained: str = ""

    @property
    def name(self) -> str:
        """Unique for its purpose, node and boot of the maker; what else Slurm would misread is out."""
        node = _UNSAFE.sub("-", self.nodes[0])
        more = f"+{len(self.nodes) - 1}" if len(self.nodes) > 1 else ""
        return f"{PREFIX}{self.purpose.value}_{node}{more.replace('+', '-and-')}_{self.maker.boot_id[:8]}"

    @property
    def comment(self) -> str:
        maker = self.maker
        pairs = {
            "host": maker.host,
            "boot": maker.boot_id,
            "pid": str(maker.pid),
            "start": str(maker.start),
            "until": str(self.until),
            "drained": self.drained,
        }
        said = " ".join(f"{key}={quote(value, safe=':/.-_')}" for key, value in pairs.items())
        return f"{_FORMAT} {self.purpose.value} {said}"


def read(reservation: Reservation) -> ReservationText | None:
    """What a reservation says; None: it is not ours, whatever its name."""
    head, _, rest = reservation.comment.partition(" ")
    purpose, _, said = rest.partition(" ")
    if head != _FORMAT or not reservation.name.startswith(PREFIX) or not reservation.nodes:
        return None
    pairs = dict(pair.partition("=")[::2] for pair in said.split())
    try:
        maker = Maker(
            host=unquote(pairs["host"]),
            boot_id=unquote(pairs["boot"]),
            pid=int(pairs["pid"]),
            start=int(pairs["start"]),
        )
        return ReservationText(
            purpose=Purpose(purpose),
            nodes=tuple(reservation.nodes),
            maker=maker,
            until=int(pairs["until"]),
            drained=unquote(pairs["drained"]),
        )
    except (KeyError, ValueError):
        return None


def stale(keep: ReservationText, me: Maker, alive: Iterable[int], now: float) -> bool:
    """Nobody works on it any more: its time is over, or its maker was on this machine and is gone.

    ``alive``: start times of the processes of this machine that have the maker's pid (none or one).
    """
    if now > keep.until:
        return True
    if keep.maker.host != me.host:
        return False
    if keep.maker.boot_id != me.boot_id:
        return True
    return keep.maker.start not in set(alive)


def on(node: str, reservations: Iterable[Reservation]) -> list[tuple[str, ReservationText]]:
    """Ours that cover the node: (name, what it says)."""
    found = [(one.name, read(one)) for one in reservations if node in one.nodes]
    return [(name, keep) for name, keep in found if keep is not None]

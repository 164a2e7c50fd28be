"""The name and comment of a reservation for a test. Pure.

Slurm itself stores everything that a clean-up needs: the name has the purpose and the node, the
comment has the maker, the end, and the reason that the node was drained with before. So a restarted
agent, or the next ``holdfast inspect`` on any machine, can restore the node.
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
    """Who tests. ``RETURN_TEST``: the node's agent, before it returns the node to service."""

    RETURN_TEST = "return-test"
    INSPECT = "inspect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """The process that made a reservation. It has exited if its machine booted again, or if no
    process has this pid and start time (ticks, proc(5)).
    """

    host: str
    boot_id: str
    pid: int
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationText:
    """The text of a reservation. ``until``: epoch seconds after which the test is over.
    ``drained``: the reason that the node was drained with before the test; empty: it was in service.
    """

    purpose: Purpose
    nodes: tuple[str, ...]
    maker: Maker
    until: int
    drained: str = ""

    @property
    def name(self) -> str:
        """Unique for purpose, node and boot of the maker; without characters that Slurm rejects."""
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
        words = " ".join(f"{key}={quote(value, safe=':/.-_')}" for key, value in pairs.items())
        return f"{_FORMAT} {self.purpose.value} {words}"


def read(reservation: Reservation) -> ReservationText | None:
    """The text of a reservation; None: Holdfast did not make it, whatever its name."""
    head, _, rest = reservation.comment.partition(" ")
    purpose, _, words = rest.partition(" ")
    if head != _FORMAT or not reservation.name.startswith(PREFIX) or not reservation.nodes:
        return None
    pairs = dict(pair.partition("=")[::2] for pair in words.split())
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


def stale(text: ReservationText, me: Maker, alive: Iterable[int], now: float) -> bool:
    """Whether the test is over: its time is up, or its maker ran on this machine and has exited.

    ``alive``: start times of the processes of this machine that have the maker's pid (none or one).
    """
    if now > text.until:
        return True
    if text.maker.host != me.host:
        return False
    if text.maker.boot_id != me.boot_id:
        return True
    return text.maker.start not in set(alive)


def on(node: str, reservations: Iterable[Reservation]) -> list[tuple[str, ReservationText]]:
    """Holdfast's reservations of the node: (name, text)."""
    found = [(r.name, read(r)) for r in reservations if node in r.nodes]
    return [(name, text) for name, text in found if text is not None]

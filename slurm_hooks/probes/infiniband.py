"""InfiniBand ports from sysfs (Documentation/ABI/stable/sysfs-class-infiniband).

Reading a counter queries the card's firmware. A firmware that hangs blocks the reader, so this
probe has a worker of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import ProbeError
from slurm_hooks.facts import PortFacts
from slurm_hooks.node import kernel_files

COUNTERS = (
    "symbol_error",
    "link_error_recovery",
    "port_rcv_errors",
    "port_xmit_discards",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)
"""Beside ``link_downed``: the counters of a bad link (InfiniBand specification, PortCounters)."""

STATES = frozenset({"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"})
LINK_LAYERS = frozenset({"InfiniBand", "Ethernet"})

_RATE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) Gb/sec")


@dataclass(frozen=True, slots=True)
class _Card:
    """Values that do not change while the card is present."""

    guid: str
    firmware: str
    board: str


def open_probe(sysfs: Path) -> Callable[[object], Iterator[tuple[PortFacts, ...]]]:
    """Answers with ``read``. Constant values are read once each time a card appears. Raises
    ProbeError without sysfs.
    """
    known: dict[tuple[str, int], _Card] = {}

    def serve(_request: object) -> Iterator[tuple[PortFacts, ...]]:
        ports = read(sysfs, known)
        if ports is None:
            raise ProbeError(f"no {sysfs}/class: is sysfs mounted there?")
        yield ports

    return serve


def read(
    sysfs: Path, known: dict[tuple[str, int], _Card] | None = None
) -> tuple[PortFacts, ...] | None:
    """Every port. Empty if the kernel has no InfiniBand class: then no driver found a card, and the
    check compares this with the cards that the node should have. None: there is no sysfs.
    """
    top = f"{sysfs}/class/infiniband"
    cards = {} if known is None else known
    if not cards and not Path(f"{sysfs}/class").is_dir():
        return None
    ports = []
    for device in kernel_files.names(top):
        folder = f"{top}/{device}"
        card = _card(folder, device, cards)
        for port in kernel_files.names(f"{folder}/ports"):
            number = kernel_files.whole(port)
            if number is not None:
                ports.append(_port(device, number, f"{folder}/ports/{port}", card))
    return tuple(ports)


def _card(folder: str, device: str, known: dict[tuple[str, int], _Card]) -> _Card:
    try:
        key = (device, Path(folder).stat().st_ino)
    except OSError:
        key = (device, -1)
    if key not in known or key[1] == -1:
        for other in [other for other in known if other[0] == device]:
            del known[other]
        known[key] = _Card(
            guid=kernel_files.text(f"{folder}/node_guid"),
            firmware=kernel_files.text(f"{folder}/fw_ver"),
            board=kernel_files.text(f"{folder}/board_id"),
        )
    return known[key]


def _port(device: str, number: int, folder: str, card: _Card) -> PortFacts:
    rate = kernel_files.text(f"{folder}/rate")
    counters = {name: kernel_files.number(f"{folder}/counters/{name}") for name in COUNTERS}
    return PortFacts(
        device=device,
        port=number,
        state=_known(kernel_files.word(f"{folder}/state"), STATES),
        phys_state=kernel_files.word(f"{folder}/phys_state"),
        rate=rate,
        rate_gbps=_gbps(rate),
        link_layer=_known(kernel_files.text(f"{folder}/link_layer"), LINK_LAYERS),
        link_downed=kernel_files.number(f"{folder}/counters/link_downed"),
        guid=card.guid,
        firmware=card.firmware,
        board=card.board,
        counters={name: value for name, value in counters.items() if value is not None},
    )


def _known(word: str, words: frozenset[str]) -> str:
    """The word if the kernel uses it, else empty: unknown."""
    return word if word in words else ""


def _gbps(rate: str) -> float | None:
    """``400 Gb/sec (4X NDR)`` as 400.0."""
    match = _RATE.match(rate)
    return float(match[1]) if match else None

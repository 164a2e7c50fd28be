"""InfiniBand ports from sysfs (Documentation/ABI/stable/sysfs-class-infiniband)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from slurm_hooks.facts import PortFacts


def open_probe(sysfs: Path) -> Callable[[object], Iterator[tuple[PortFacts, ...] | None]]:
    """Answers with ``read``."""

    def serve(_request: object) -> Iterator[tuple[PortFacts, ...] | None]:
        yield read(sysfs)

    return serve


def read(sysfs: Path) -> tuple[PortFacts, ...] | None:
    """Every port, or None where the kernel has no InfiniBand class (nothing to look at, not
    healthy).
    """
    top = sysfs / "class" / "infiniband"
    if not top.is_dir():
        return None
    return tuple(
        _port(device.name, folder)
        for device in sorted(top.iterdir())
        for folder in sorted((device / "ports").glob("[0-9]*"))
    )


def _port(device: str, folder: Path) -> PortFacts:
    return PortFacts(
        device=device,
        port=int(folder.name),
        state=_word(folder / "state"),
        phys_state=_word(folder / "phys_state"),
        rate=_text(folder / "rate"),
        link_layer=_text(folder / "link_layer"),
        link_downed=_number(folder / "counters" / "link_downed"),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _word(path: Path) -> str:
    """``4: ACTIVE`` as ``ACTIVE``."""
    return _text(path).rpartition(":")[2].strip()


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdigit() else None

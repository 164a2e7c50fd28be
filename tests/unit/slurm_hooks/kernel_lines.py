"""Reads tests/data/kmsg: blocks of recorded kernel lines and the events expected from them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slurm_hooks.probes.kmsg.follower import KernelRecord

FOLDER = Path(__file__).resolve().parents[2] / "data" / "kmsg"
_LINE = re.compile(r"\[ *(\+?[\d.]+)\] (.*)")
_WANT = re.compile(r"=> (\S+) (.+?)(?: x(\d+))?( over)?")


@dataclass(frozen=True, kw_only=True)
class Block:
    """One source's lines. ``wanted``: (code, subject, count, over) of each event, in their order."""

    source: str
    records: tuple[KernelRecord, ...]
    wanted: tuple[tuple[str, str, int, bool], ...]


def blocks() -> Iterator[Block]:
    """Every block of every file. Raises ValueError for a line of an unknown form."""
    for path in sorted(FOLDER.glob("*.log")):
        for text in path.read_text(encoding="utf-8").strip().split("\n\n"):
            yield _block(f"{path.name}: ", text.splitlines())


def _block(name: str, lines: list[str]) -> Block:
    records: list[KernelRecord] = []
    wanted: list[tuple[str, str, int, bool]] = []
    source = ""
    for line in lines:
        if line.startswith("# "):
            source = name + line[2:]
        elif match := _WANT.fullmatch(line):
            wanted.append((match[1], match[2], int(match[3] or 1), bool(match[4])))
        elif match := _LINE.fullmatch(line):
            records.append(_record(match[1], match[2], records))
        else:
            raise ValueError(f"{name}{line!r} has no form")
    return Block(source=source, records=tuple(records), wanted=tuple(wanted))


def _record(time: str, text: str, before: list[KernelRecord]) -> KernelRecord:
    last = before[-1].at_s if before else 0.0
    at_s = last + 0.000001 if time.startswith("+") else float(time)
    text = text.replace("\\n", "\n")
    return KernelRecord(facility=0, level=4, seq=len(before), at_s=at_s, text=text)

"""Dumps of torch's flight recorder: which ranks the others wait for.

Each rank writes one (``TORCH_NCCL_DUMP_ON_TIMEOUT``, ``TORCH_FR_BUFFER_SIZE``) with the collectives that it
has enqueued and not completed. A dump is a pickle of plain values; one that names a class is refused.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Mapping

FIRST_BYTES = b"\x80"
"""Of a pickle; no log begins with this byte."""
_MAX_ENTRIES = 100_000
_RANK = re.compile(r"(\d{1,6})\D*$")

Pending = Mapping[str, int]
"""Process group → number of the last collective that the rank enqueued there."""


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> object:
        raise pickle.UnpicklingError(f"names {module}.{name}")


def rank_of(name: str) -> int | None:
    """The rank in the name of a dump, its last number."""
    found = _RANK.search(name)
    return int(found[1]) if found else None


def pending(data: bytes) -> dict[str, int] | None:
    """What one rank waits for; ``None`` if the data is no dump."""
    try:
        dump = _Plain(io.BytesIO(data)).load()
    except Exception:  # noqa: BLE001 (a pickle that somebody else wrote can raise anything)
        return None
    entries = dump.get("entries") if isinstance(dump, dict) else None
    if not isinstance(entries, list):
        return None
    last: dict[str, int] = {}
    for entry in entries[:_MAX_ENTRIES]:
        if not isinstance(entry, dict) or entry.get("state") == "completed":
            continue
        group, number = entry.get("process_group"), entry.get("collective_seq_id")
        if isinstance(group, tuple) and group and isinstance(number, int):
            last[str(group[0])] = max(number, last.get(str(group[0]), 0))
    return last


def awaited(dumps: Mapping[int, Pending]) -> tuple[int, ...]:
    """The ranks that wait for nothing while others wait; else those that are behind in most groups.
    Empty if they are more than a quarter of all: then the dumps do not tell."""
    silent = [rank for rank, groups in dumps.items() if not groups]
    behind = {rank: _groups_behind(groups, dumps) for rank, groups in dumps.items()}
    most = max(behind.values(), default=0)
    found = silent or [rank for rank, count in behind.items() if count == most > 0]
    return tuple(sorted(found)) if 4 * len(found) <= len(dumps) else ()


def _groups_behind(groups: Pending, dumps: Mapping[int, Pending]) -> int:
    return sum(
        number < max(other.get(name, 0) for other in dumps.values())
        for name, number in groups.items()
    )


def line(ranks: tuple[int, ...]) -> str:
    """What the dumps tell as a line of a log; the signature N31 matches it."""
    return f"flight recorder: the others wait for ranks {', '.join(map(str, ranks))}"

"""Seeded garbage, as from faulty disks, incomplete writes and other programs."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

KERNEL_LINES, SYSFS_VALUES, VERDICT_FILES = 4000, 3000, 3000
"""Ten thousand in all."""

XID_79 = "NVRM: Xid (PCI:0000:53:00): 79, GPU has fallen off the bus."

LONG = "9" * 5000
"""More digits than int() takes (sys.get_int_max_str_digits)."""

NUMBERS = (
    "", "-1", "+5", "1e9", "0x10", "NaN", "inf", "1_000", " 7", "7 ", "²", "٣", "૧૨", "1.5", "--",
    LONG, str(2**64), str(10**40), "\0", "\ufeff7", "null", "0b1", "\uff17",
)  # fmt: skip
"""What is no number of the kernel's, however much it may look like one."""


def noise(chance: random.Random, most: int = 200) -> bytes:
    """Any bytes at all."""
    return chance.randbytes(chance.randint(0, most))


def broken(chance: random.Random, text: bytes) -> bytes:
    """The text with a few bytes lost, doubled, flipped or cut off."""
    data = bytearray(text)
    for _ in range(chance.randint(1, 4)):
        if not data:
            break
        at = chance.randrange(len(data))
        harm = chance.randrange(5)
        if harm == 0:
            del data[at:]
        elif harm == 1:
            del data[at : at + chance.randint(1, 8)]
        elif harm == 2:
            data[at] ^= 1 << chance.randrange(8)
        elif harm == 3:
            data[at:at] = data[at : at + chance.randint(1, 40)]
        else:
            data[at:at] = noise(chance, 12)
    return bytes(data)


# --- JSON -----------------------------------------------------------------------------------------

STRANGE: tuple[Any, ...] = (
    None, True, False, -1, 0, 1.5, 10**30, 1e308, float("inf"), float("-inf"), float("nan"), "", "x", "0",
    "\ud800", LONG, [], {}, [None], {"x": 1}, [[1, 2], [3]], "2026-11-21T00:00:00",
)  # fmt: skip
"""Values of the wrong kind, or of the right kind and absurd."""


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything inside a JSON value, containers included."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        yield (*path, key)
        yield from leaves(inner, (*path, key))


def with_value(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of the document with another value there."""
    copy = json.loads(json.dumps(document))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy


def without(document: Any, path: tuple[Any, ...]) -> Any:
    """A copy of the document that lacks what is there."""
    copy = json.loads(json.dumps(document))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return copy


def wrong_documents(document: Any) -> Iterator[tuple[str, str]]:
    """(what is wrong, JSON text): every value replaced by every strange one, and every key left
    out."""
    for path in leaves(document):
        yield f"{path} is missing", json.dumps(without(document, path))
        for strange in STRANGE:
            text = json.dumps(with_value(document, path, strange))
            yield f"{path} = {str(strange)[:20]!r}", text


def cut_short(text: str, step: int = 1) -> Iterator[str]:
    """Every beginning of the text, as a half-finished write leaves it."""
    for end in range(0, len(text.rstrip()), step):
        yield text[:end]


DEEP = "[" * 100_000
"""More levels than a recursive reader has stack for."""

Maker = Callable[[random.Random], bytes]
